package engineapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/container"
)

// A host has one container, whose main process is endless.
type host struct {
	service.Runtime
	boxes []*runtime.Sandbox
}

func (h *host) Get(context.Context, string) (*runtime.Sandbox, error) { return h.boxes[0], nil }

func (h *host) List(context.Context) ([]*runtime.Sandbox, error) { return slices.Clone(h.boxes), nil }

// newHost returns a host whose container has a record.
func newHost(record string) *host {
	labels := map[string]string{launch.LabelRecord: "{}", launch.LabelContainer: record}
	return &host{boxes: []*runtime.Sandbox{{ID: "0123456789ab", State: runtime.StateRunning, Labels: labels}}}
}

func (h *host) SessionJobs(context.Context, runtime.SessionID) ([]*runtime.Job, error) {
	return []*runtime.Job{{ID: "main", Name: "main"}}, nil
}

func (h *host) JobOutput(context.Context, runtime.SessionID, string, uint64, uint64, bool) (runtime.Process, error) {
	return &endless{ended: make(chan struct{})}, nil
}

// An endless process writes until it is closed.
type endless struct {
	runtime.Process
	once  sync.Once
	ended chan struct{}
}

func (e *endless) Stdout() io.Reader { return e }
func (e *endless) Stderr() io.Reader { return strings.NewReader("") }

func (e *endless) Read(b []byte) (int, error) {
	select {
	case <-e.ended:
		return 0, io.EOF
	default:
		return len(b), nil
	}
}

func (e *endless) Close() error {
	e.once.Do(func() { close(e.ended) })
	return nil
}

// dial connects to a service over a host. left is closed when it has done with the first request.
func dial(t *testing.T, over *host, o stream.Options) (conn net.Conn, left chan struct{}) {
	t.Helper()
	h := New(container.New(service.New(over, nil), &container.Options{}), &Options{Options: o})
	t.Cleanup(h.Close)
	left = make(chan struct{})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		h.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	if conn, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return conn, left
}

// A client that follows the logs and does not read them is left after a time.
func TestLogsStalled(t *testing.T) {
	record := fmt.Sprintf(`{"Image":"x","Kind":"job","Started":%q}`, time.Now().Format(time.RFC3339Nano))
	conn, left := dial(t, newHost(record), stream.Options{WriteLimit: 100 * time.Millisecond})
	defer conn.Close()
	fmt.Fprint(conn, "GET /containers/0123456789ab/logs?stdout=1&follow=1 HTTP/1.1\r\nHost: d\r\n\r\n")
	select {
	case <-left:
	case <-time.After(hang):
		t.Error("the service waits for a client that does not read")
	}
}

// hang is a guard against a hang.
const hang = time.Minute

// A client that attaches to a container that is never started leaves nothing behind when it goes.
func TestAttachLeft(t *testing.T) {
	conn, left := dial(t, newHost(`{"Image":"x"}`), stream.Options{})
	fmt.Fprintf(conn, "POST /containers/0123456789ab/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "HTTP/1.1 101 UPGRADED\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	fmt.Fprint(conn, "input") // and its end: not the client's
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
		t.Fatal("the service has left a client that waits")
	default:
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(hang):
		t.Error("the service waits for the start for a client that has gone")
	}
}
