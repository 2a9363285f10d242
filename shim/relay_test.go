package shim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// A liar is a guest of which the test decides what it says.
type liar struct {
	w    *wire.Writer
	r    *wire.Reader
	over chan error // what relay.run returned
}

type pair struct {
	io.Reader
	io.WriteCloser
}

// lie runs a relay between a liar and a client.
func lie(t *testing.T) (*liar, *client.Conn) {
	t.Helper()
	fromGuest, guestOut := io.Pipe()
	guestIn, toGuest := io.Pipe()
	s := &shim{relay: newRelay(pair{fromGuest, toGuest})}
	g := &liar{w: wire.NewWriter(guestOut), r: wire.NewReader(guestIn), over: make(chan error, 1)}
	go func() { g.over <- s.relay.run() }()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the socket
		s.accept(int(listener.Fd()))
		close(ended)
	}()
	sock, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn := client.New(sock)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = unix.Shutdown(int(listener.Fd()), unix.SHUT_RD) // ends accept
		<-ended
		_ = errors.Join(listener.Close(), l.Close())
		_ = guestOut.Close()
		_ = guestIn.Close()
	})
	return g, conn
}

// started has the client ask for a process and returns the guest's channel.
func (g *liar) started(t *testing.T, conn *client.Conn) (*client.Process, uint32) {
	t.Helper()
	asked := make(chan uint32, 1)
	go func() {
		f, err := g.r.Next()
		if err == nil {
			asked <- f.Channel
			f.Release()
		}
	}()
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"x"}}})
	if err != nil {
		t.Fatal(err)
	}
	return p, wait.Receive(t, "the request at the guest", asked)
}

// The shim answers a request to stop before it tells PID 1, whose end ends the connection.
func TestStopAnswered(t *testing.T) {
	g, conn := lie(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	grace := time.Hour.Milliseconds()
	var answer boot.Reply
	err := conn.Control(ctx, &boot.Request{Op: boot.OpStop, GraceMS: &grace}, &answer)
	// The test reads the frame for PID 1 only now.
	if f, nerr := g.r.Next(); nerr != nil || f.Type != wire.Shutdown {
		t.Errorf("PID 1 hears %+v, %v", f, nerr)
	}
	if err != nil || answer.Err() != nil {
		t.Errorf("Control: got %v, %v; want nil, nil", err, answer.Err())
	}
}

// lies are what a guest must not say, on a channel that the client has opened.
var lies = map[string]func(g *liar, ch uint32) error{
	"output beyond its credit": func(g *liar, ch uint32) error {
		for range wire.Window/wire.MaxPayload + 1 {
			if err := g.w.Send(wire.Stdout, ch, make([]byte, wire.MaxPayload)); err != nil {
				return err
			}
		}
		return nil
	},
	"output of no bytes": func(g *liar, ch uint32) error { return g.w.Send(wire.Stderr, ch, nil) },
	"credit for no input": func(g *liar, ch uint32) error {
		return g.w.Send(wire.Credit, ch, wire.AppendCredit(nil, wire.Stdin, 1))
	},
	"started twice": func(g *liar, ch uint32) error {
		return errors.Join(g.w.Send(wire.Started, ch, make([]byte, 4)), g.w.Send(wire.Started, ch, make([]byte, 4)))
	},
	"queued twice": func(g *liar, ch uint32) error {
		return errors.Join(g.w.Send(wire.Queued, ch, nil), g.w.Send(wire.Queued, ch, nil))
	},
	"ended twice": func(g *liar, ch uint32) error {
		return errors.Join(g.w.Send(wire.StdoutEOF, ch, nil), g.w.Send(wire.StdoutEOF, ch, nil))
	},
	"a channel that is not open": func(g *liar, ch uint32) error { return g.w.Send(wire.Stdout, ch+1, []byte("x")) },
	"a host's frame":             func(g *liar, ch uint32) error { return g.w.Send(wire.Stdin, ch, []byte("x")) },
	"a shim's frame":             func(g *liar, ch uint32) error { return g.w.Send(wire.Reply, ch, []byte("{}")) },
	"after the end": func(g *liar, ch uint32) error {
		return errors.Join(g.w.SendJSON(wire.Exit, ch, wire.ExitStatus{}), g.w.Send(wire.Stdout, ch, []byte("x")))
	},
}

func TestRelayEndsALyingGuest(t *testing.T) {
	for name, say := range lies {
		t.Run(name, func(t *testing.T) {
			g, conn := lie(t)
			_, ch := g.started(t, conn)
			go func() { _ = say(g, ch) }()
			if err := wait.Receive(t, "the end of the relay", g.over); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("the relay ended with %v, want %v", err, wire.ErrProtocol)
			}
		})
	}
}

// Without a relay between them the client's own end checks the same.
func TestClientEndsALyingGuest(t *testing.T) {
	for name, say := range lies {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			conn := client.New(ours)
			defer conn.Close()
			defer theirs.Close()
			g := &liar{w: wire.NewWriter(theirs), r: wire.NewReader(theirs)}
			p, ch := g.started(t, conn)
			go func() { _ = say(g, ch) }() // ends with the connection
			wait.Receive(t, "the end of the connection", conn.Done())
			if !errors.Is(conn.Err(), wire.ErrProtocol) {
				t.Errorf("the connection ended with %v, want %v", conn.Err(), wire.ErrProtocol)
			}
			wait.Receive(t, "the end of the process", p.Done())
		})
	}
}

// What a guest sends by the byte takes no more memory than what waits.
func TestRelayOfSingleBytes(t *testing.T) {
	g, conn := lie(t)
	p, ch := g.started(t, conn) // nobody reads its output
	const n, most = 1 << 14, 64 << 20
	used := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for range n {
		if err := g.w.Send(wire.Stdout, ch, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.w.SendJSON(wire.Exit, ch, wire.ExitStatus{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil { // so all of it is in the client's queue
		t.Fatal(err)
	}
	if after := used(); after > before+most {
		t.Errorf("%d bytes are kept for %d", after-before, n)
	}
	if got, err := io.ReadAll(p.Stdout()); len(got) != n || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A client that does not read delays no other: what the guest may send it is
// queued, and no more.
func TestRelayDoesNotWaitForClients(t *testing.T) {
	g, conn := lie(t)
	_, ch := g.started(t, conn) // nobody reads its output
	sent := make(chan error, 1)
	go func() {
		for range wire.Window / wire.MaxPayload {
			if err := g.w.Send(wire.Stdout, ch, make([]byte, wire.MaxPayload)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	if err := wait.Receive(t, "the end of what the guest sends", sent); err != nil {
		t.Fatal(err)
	}
	p, ch := g.started(t, conn)
	go func() { _ = g.w.SendJSON(wire.Exit, ch, wire.ExitStatus{Code: 3}) }()
	if status, err := p.Wait(t.Context()); err != nil || status.Code != 3 {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.Code == 3", status, err)
	}
}

// PID 1 is told what a client leaves behind, whose late frames have no effect.
func TestRelayDetachesWhatAClientLeft(t *testing.T) {
	g, conn := lie(t)
	_, ch := g.started(t, conn)
	_ = conn.Close()
	got := make(chan wire.Frame, 1)
	go func() {
		if f, err := g.r.Next(); err == nil {
			got <- f
		}
	}()
	if f := wait.Receive(t, "a frame at the guest", got); f.Type != wire.Detach || f.Channel != ch {
		t.Errorf("frame of type %d on channel %d, want Detach on %d", f.Type, f.Channel, ch)
	}
	for _, send := range []func() error{
		func() error { return g.w.Send(wire.Stdout, ch, []byte("late")) },
		func() error { return g.w.SendJSON(wire.Exit, ch, wire.ExitStatus{}) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-g.over:
		t.Errorf("the relay ended with %v", err)
	default:
	}
}

func TestRelayHello(t *testing.T) {
	for name, tt := range map[string]struct {
		say  func(w *wire.Writer) error
		fine bool
	}{
		"right":         {func(w *wire.Writer) error { return w.SendJSON(wire.Hello, 0, wire.Greeting{Version: wire.Version}) }, true},
		"other version": {func(w *wire.Writer) error { return w.SendJSON(wire.Hello, 0, wire.Greeting{Version: wire.Version + 1}) }, false},
		"other frame":   {func(w *wire.Writer) error { return w.Send(wire.Stdout, 1, nil) }, false},
		"no JSON":       {func(w *wire.Writer) error { return w.Send(wire.Hello, 0, []byte("hi")) }, false},
	} {
		r, w := io.Pipe()
		go func() { _ = tt.say(wire.NewWriter(w)) }()
		err := newRelay(pair{r, nopCloser{io.Discard}}).hello(wait.Limit, false)
		if (err == nil) != tt.fine {
			t.Errorf("%s: got err %v; want (err == nil) == %v", name, err, tt.fine)
		}
		_ = w.Close()
	}
	r, w := io.Pipe()
	defer w.Close()
	if err := newRelay(pair{r, nopCloser{io.Discard}}).hello(10*time.Millisecond, false); err == nil {
		t.Error("a silent guest is taken for one that has spoken")
	}
	for _, answers := range []bool{true, false} {
		r, w := io.Pipe()
		go func() {
			send := wire.NewWriter(w)
			_ = send.SendJSON(wire.Hello, 0, wire.Greeting{Version: wire.Version})
			if answers {
				_ = send.Send(wire.Pong, 0, nil)
			}
			_ = w.Close()
		}()
		if err := newRelay(pair{r, nopCloser{io.Discard}}).hello(wait.Limit, true); (err == nil) != answers {
			t.Errorf("a guest that answers (%v): %v", answers, err)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestAlive: the shim says that the sandbox is alive when PID 1 has answered the very question, and not while PID 1 is ending.
func TestAlive(t *testing.T) {
	g, conn := lie(t)
	pings := make(chan []byte, 2)
	go func() { // ends with the stream
		for {
			f, err := g.r.Next()
			if err != nil {
				return
			}
			if f.Type == wire.Ping {
				pings <- bytes.Clone(f.Payload())
			}
			f.Release()
		}
	}()
	answered := make(chan error, 1)
	go func() {
		var answer boot.Reply
		err := conn.Control(t.Context(), &boot.Request{Op: boot.OpAlive}, &answer)
		answered <- errors.Join(err, answer.Err())
	}()
	ping := wait.Receive(t, "a ping at PID 1", pings)
	for _, other := range [][]byte{nil, bytes.Repeat(ping, 2), append([]byte{ping[0] + 1}, ping[1:]...)} {
		if err := g.w.Send(wire.Pong, 0, other); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.w.Send(wire.Busy, 0, make([]byte, 4)); err != nil { // the relay has handled the frames before
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		t.Fatalf("answered without PID 1: %v", err)
	default:
	}
	if err := g.w.Send(wire.Pong, 0, ping); err != nil {
		t.Fatal(err)
	}
	if err := wait.Receive(t, "the answer", answered); err != nil {
		t.Error(err)
	}
}

// TestAwaitIdle: who waits until nothing runs inside goes on at the end of the last use, of whatever kind, or when it need not
// wait any more.
func TestAwaitIdle(t *testing.T) {
	r := newRelay(nil)
	never := func() bool { return false }
	r.awaitIdle(never) // it is idle
	waits := func(anyway func() bool) (over chan struct{}) {
		over = make(chan struct{})
		go func() {
			defer close(over)
			r.awaitIdle(anyway)
		}()
		return over
	}
	for what, use := range map[string]struct{ begin, end func() }{
		"a hold":   {r.hold, r.release},
		"a client": {func() { r.work(true, 0) }, func() { r.work(false, 0) }},
	} {
		use.begin()
		r.hold()
		over := waits(never)
		use.end()
		select {
		case <-over:
			t.Errorf("%s: over while the sandbox is in use", what)
		case <-time.After(10 * time.Millisecond):
		}
		r.release()
		if !boot.Within(wait.Limit, over) {
			t.Fatalf("%s: not over", what)
		}
	}
	r.hold()
	var walked atomic.Bool
	over := waits(walked.Load)
	walked.Store(true)
	r.recheck()
	if !boot.Within(wait.Limit, over) {
		t.Fatal("not over although it need not wait")
	}
	if busy, _ := r.usage(); !busy {
		t.Error("it is not in use")
	}
}
