package local

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"wolffia/wire"
	"wolffia/wire/client"
)

// A liar is a guest of which the test decides what it says.
type liar struct {
	w *wire.Writer
	r *wire.Reader
}

// lie connects a client to a liar.
func lie(t *testing.T) (*liar, *client.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := client.New(ours)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = theirs.Close()
	})
	return &liar{w: wire.NewWriter(theirs), r: wire.NewReader(theirs)}, conn
}

// started has the client ask for a process and returns its channel.
func (g *liar) started(t *testing.T, conn *client.Conn) (*client.Process, uint32) {
	t.Helper()
	asked := make(chan uint32, 1)
	go func() { // ends with the frame, or the connection
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
	return p, <-asked
}

// never is of a sandbox that was not paused.
func never() time.Duration { return 0 }

// A command that PID 1 neither ends nor tells of is given up after its time-out, with the
// output that has come; what still comes is dropped, and the connection serves others.
func TestOverdue(t *testing.T) {
	g, conn := lie(t)
	p, channel := g.started(t, conn)
	if err := g.w.Send(wire.Stdout, channel, []byte("some")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := p.Stdout().Read(b); err != nil || string(b) != "some" {
		t.Fatalf(`Read: got %q, %v; want "some", nil`, b, err)
	}
	(&overdue{process: p, session: true, paused: never}).look()
	if f, err := g.r.Next(); err != nil || f.Type != wire.Kill || f.Channel != channel {
		t.Errorf("PID 1 hears %+v, %v", f, err)
	}
	status, err := p.Wait(t.Context())
	if err != nil || !status.TimedOut || status.Code != 137 || !status.StatusLost {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.TimedOut and status.Code == 137 and status.StatusLost",
			status, err)
	}
	for range 3 {
		if err := g.w.Send(wire.Stdout, channel, []byte("late")); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.Stdout().Read(b); n != 0 || fmt.Sprint(err) != "EOF" {
		t.Errorf(`Read: got %q, err %v; want n == 0 and err == "EOF"`, b[:n], err)
	}
	if err := g.w.SendJSON(wire.Exit, channel, wire.ExitStatus{Code: 3}); err != nil {
		t.Fatal(err)
	}
	g.started(t, conn)
}

// Output that its reader has not taken yet is no reason to give a command up, unless
// there is more of it than there can be.
func TestOverdueWithSlowReader(t *testing.T) {
	g, conn := lie(t)
	p, channel := g.started(t, conn)
	if err := g.w.Send(wire.Stdout, channel, []byte("something")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := p.Stdout().Read(b); err != nil || string(b) != "some" {
		t.Fatalf(`Read: got %q, %v; want "some", nil`, b, err)
	}
	o := &overdue{process: p, paused: never, timer: time.NewTimer(time.Hour)}
	o.look()
	select {
	case <-p.Done():
		t.Error("it was given up")
	default:
	}
	o.late = -overdueOutput
	o.look()
	<-p.Done()
	if _, err := p.Stdout().Read(b); err != nil || string(b) != "thin" {
		t.Errorf("what had come: %q, %v", b, err)
	}
}
