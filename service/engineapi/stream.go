package engineapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/service/container"
)

// rawStream is docker's type of a stream of output.
const rawStream = "application/vnd.docker.raw-stream"

// A mux puts two streams into one, as docker does: each piece has a header of eight bytes, of
// which the first is the stream and the last four are the piece's length.
type mux struct {
	mu sync.Mutex
	w  io.Writer
}

// stream returns the writer of a stream: 1 is standard output, 2 standard error.
func (m *mux) stream(n byte) io.Writer { return &muxed{m, n} }

type muxed struct {
	*mux
	n byte
}

func (m *muxed) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{m.n, 0, 0, 0}, uint32(len(b))) //nolint:gosec // pieces are short
	if _, err := m.w.Write(append(head, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// sight returns where the output goes that a request asks for.
func (r *request) sight(w io.Writer, tty bool) *container.Sight {
	if tty {
		return &container.Sight{Stdout: w, Tail: -1}
	}
	s, m := &container.Sight{Tail: -1}, &mux{w: w}
	if r.truth("stdout") {
		s.Stdout = m.stream(1)
	}
	if r.truth("stderr") {
		s.Stderr = m.stream(2)
	}
	return s
}

func containerLogs(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	for _, name := range []string{"timestamps", "since", "until"} {
		if r.truth(name) {
			return nil, runtime.Errorf(runtime.ErrUnsupported,
				"logs: %s: it is not known when a line was written", name)
		}
	}
	if !r.truth("stdout") && !r.truth("stderr") {
		return nil, runtime.Errorf(runtime.ErrInvalid, "Bad parameters: you must choose at least one stream")
	}
	late := &live{w: r.w, kind: rawStream}
	s := r.sight(late, c.Tty)
	s.Past, s.Follow = true, r.truth("follow")
	if tail := r.query.Get("tail"); tail != "" && tail != "all" {
		if n, err := strconv.Atoi(tail); err == nil { // else all, as docker
			s.Tail = n
		}
	}
	if s.Follow {
		late.begin()
	}
	if err := c.Logs(ctx, s); err != nil {
		if !late.begun {
			return nil, err
		}
		h.log.Warn("logs were not sent whole", "container", c.Sandbox.ID, "error", err.Error())
	}
	late.begin()
	return done{}, nil
}

// A live reply sends what is written at once. It begins with that, so that an error before has a
// status, or with begin.
type live struct {
	w     http.ResponseWriter
	kind  string // Content-Type
	begun bool
}

func (l *live) begin() {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", l.kind)
		l.w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(l.w).Flush()
	}
}

// Write implements [io.Writer].
func (l *live) Write(b []byte) (int, error) {
	l.begin()
	n, err := l.w.Write(b)
	if err == nil {
		err = http.NewResponseController(l.w).Flush()
	}
	return n, err
}

// A hijacked connection is the client's two streams.
type hijacked struct {
	net.Conn
	in *bufio.Reader
}

// Read implements [io.Reader].
func (c *hijacked) Read(b []byte) (int, error) { return c.in.Read(b) }

// hijack takes the connection of a request over, and ends it with ctx.
func (r *request) hijack(ctx context.Context) (*hijacked, func(), error) {
	conn, both, err := http.NewResponseController(r.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: " + rawStream + "\r\n\r\n"
	if strings.EqualFold(r.Header.Get("Upgrade"), "tcp") {
		head = "HTTP/1.1 101 UPGRADED\r\nContent-Type: " + rawStream + "\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
	}
	if err := writeApart(conn, head); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &hijacked{conn, both.Reader}, func() {
		stop()
		if half, is := conn.(interface{ CloseWrite() error }); is { // what was sent is read first
			_ = half.CloseWrite()
		}
		_ = conn.Close()
	}, nil
}

// await waits until started is closed, unless it is nil. It returns false if the client goes away
// before, or ctx ends.
func (c *hijacked) await(ctx context.Context, started <-chan struct{}) bool {
	raw, err := c.Conn.(syscall.Conn).SyscallConn() // of a socket
	if started == nil || err != nil {
		return err == nil
	}
	left := make(chan struct{})
	go func() { // ends with await
		defer close(left)
		_ = raw.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 0) //nolint:gosec // a descriptor
			return n > 0                                         // POLLHUP: both directions are closed, see poll(2)
		})
	}()
	runs := false
	select {
	case <-started:
		runs = true
	case <-left:
	case <-ctx.Done():
	}
	_ = c.SetReadDeadline(time.Now())
	<-left
	_ = c.SetReadDeadline(time.Time{})
	return runs
}

// writeApart writes the head of a reply so that no read returns what follows with it: docker for
// Python drops what it reads beyond the head. A unix socket's read ends at a descriptor (unix(7));
// the kernel closes this one, which no caller asks for.
func writeApart(conn net.Conn, head string) error {
	to, is := conn.(*net.UnixConn)
	if !is {
		_, err := io.WriteString(conn, head)
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	_, _, err = to.WriteMsgUnix([]byte(head), unix.UnixRights(int(null.Fd())), nil)
	return err
}

func attachContainer(h *Handler, _ context.Context, r *request, c *container.Container) (any, error) {
	ctx, cancel := context.WithCancel(h.ctx) // that of the request ends with its connection's takeover
	defer cancel()
	if !r.truth("stream") {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "attach without stream: ask for the logs")
	}
	a := c.Attach()
	defer a.Leave()
	conn, end, err := r.hijack(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if !conn.await(ctx, a.Started()) {
		return done{}, nil
	}
	s := r.sight(conn, c.Tty)
	s.Past, s.Follow = r.truth("logs"), true
	var stdin io.Reader
	if r.truth("stdin") {
		stdin = conn
	}
	if err := a.Serve(ctx, stdin, s); err != nil {
		h.log.Info("an attached client has left", "error", err.Error())
	}
	return done{}, nil
}
