package client_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// asked returns a connection on which a question waits for its answer, the other end, and what
// becomes of the question.
func asked(t *testing.T) (conn *client.Conn, far *wire.Writer, hangUp func(), got chan error) {
	t.Helper()
	near, end := net.Pipe()
	conn = client.New(near)
	hangUp = func() { _ = end.Close() }
	t.Cleanup(hangUp)
	t.Cleanup(func() { _ = conn.Close() })
	got = make(chan error, 1)
	go func() {
		var answer struct{}
		got <- conn.Control(t.Context(), struct{}{}, &answer)
	}()
	f, err := wire.NewReader(end).Next()
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	return conn, wire.NewWriter(end), hangUp, got
}

// A hasty is a stream whose other end answers the first question and hangs up before the asker is
// done with asking.
type hasty struct {
	io.Reader
	answer io.Writer
	conn   *client.Conn
}

func (h *hasty) Write(b []byte) (int, error) {
	go func() { _ = wire.NewWriter(h.answer).Send(wire.Reply, 0, []byte("{}")); _ = h.Close() }() // ends with the pipe
	<-h.conn.Done()
	return len(b), nil
}

func (h *hasty) Close() error { return h.answer.(io.Closer).Close() }

// An answer counts also if the connection has ended before the caller looked.
func TestLastAnswer(t *testing.T) {
	for range 50 { // who looks finds both
		h := &hasty{}
		h.Reader, h.answer = io.Pipe()
		h.conn = client.New(h)
		var answer struct{}
		if err := h.conn.Control(t.Context(), struct{}{}, &answer); err != nil {
			t.Fatal(err)
		}
	}
}

// CloseAnswered lets a question have its answer, and nothing else.
func TestCloseAnswered(t *testing.T) {
	conn, far, hangUp, got := asked(t)
	conn.CloseAnswered()
	if err := conn.Err(); err != nil {
		t.Fatalf("closed before the answer: %v", err)
	}
	if err := far.Send(wire.Reply, 0, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := wait.Receive(t, "the end of the question", got); err != nil {
		t.Error(err)
	}
	wait.Receive(t, "the end of a connection that was to close after the answer", conn.Done())
	hangUp()

	near, end := net.Pipe()
	defer end.Close()
	idle := client.New(near)
	idle.CloseAnswered()
	if err := idle.Err(); !errors.Is(err, client.ErrClosed) {
		t.Errorf("with no question: %v", err)
	}
}

// A sealed connection starts nothing, and one with a process is not sealed.
func TestSeal(t *testing.T) {
	near, end := net.Pipe()
	defer end.Close()
	started := make(chan uint32, 1)
	go func() { // ends with the pipe
		f, err := wire.NewReader(end).Next()
		if err != nil {
			return
		}
		started <- f.Channel
		f.Release()
	}()
	conn := client.New(near)
	defer conn.Close()
	start := func() (*client.Process, error) {
		return conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"true"}}})
	}
	p, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if conn.Seal() {
		t.Fatal("sealed beside a process")
	}
	if err := wire.NewWriter(end).Send(wire.Exit, <-started, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !conn.Seal() {
		t.Fatal("not sealed")
	}
	if _, err := start(); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a process was started: %v", err)
	}
	if !conn.Idle() {
		t.Error("the connection has a process, or has ended")
	}
}
