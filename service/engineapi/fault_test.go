package engineapi

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/container"
)

// A host has one container, which was created and not started.
type host struct {
	service.Runtime
	boxes []*runtime.Sandbox
}

func (h *host) Get(context.Context, string) (*runtime.Sandbox, error) { return h.boxes[0], nil }

func (h *host) List(context.Context) ([]*runtime.Sandbox, error) { return slices.Clone(h.boxes), nil }

func newHost() *host {
	labels := map[string]string{launch.LabelRecord: "{}", launch.LabelContainer: `{"Image":"x"}`}
	return &host{boxes: []*runtime.Sandbox{{ID: "0123456789ab", State: runtime.StateRunning, Labels: labels}}}
}

// hang is a guard against a hang.
const hang = time.Minute

// A client that attaches to a container that is never started leaves nothing behind when it goes.
func TestAttachLeft(t *testing.T) {
	engine := container.New(service.New(newHost(), nil), &container.Options{})
	h := New(engine, &Options{})
	defer h.Close()
	left := make(chan struct{})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		h.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
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
