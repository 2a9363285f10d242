package shim

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// answer answers a shim's greeting of a new stream.
func (g *liar) answer(t *testing.T) {
	t.Helper()
	if err := g.w.SendJSON(wire.Hello, 0, wire.Greeting{Version: wire.Version}); err != nil {
		t.Fatal(err)
	}
	f, err := g.r.Next()
	if err != nil || f.Type != wire.Ping {
		t.Fatalf("the new stream begins with %+v, %v", f, err)
	}
	if err := g.w.Send(wire.Pong, 0, f.Payload()); err != nil {
		t.Fatal(err)
	}
}

// When the stream breaks, what ran over it ends with an error. What comes meanwhile waits for the
// next stream, on which there is nothing of before: not the rest of a request either.
func TestStreamBreaks(t *testing.T) {
	fromGuest, guestOut := io.Pipe()
	guestIn, toGuest := io.Pipe()
	streams := make(chan io.ReadWriteCloser)
	severed := make(chan struct{}, 9)
	r := newRelay(pair{fromGuest, toGuest})
	r.again = func() (io.ReadWriteCloser, error) {
		severed <- struct{}{}
		next, more := <-streams
		if !more {
			return nil, io.EOF
		}
		return next, nil
	}
	over := make(chan error, 1)
	go func() { over <- r.run() }() // ends without another stream
	s := &shim{relay: r}
	conn, err := s.self()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begin := func(args ...string) <-chan *client.Process {
		begun := make(chan *client.Process, 1)
		go func() { // ends with the request
			p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: args}})
			if err != nil {
				t.Error(err)
			}
			begun <- p
		}()
		return begun
	}
	failed := func(p *client.Process) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		_, err := p.Wait(ctx)
		if why, is := errors.AsType[*client.StartError](err); !is || why.Class != wire.ClassUnavailable {
			t.Errorf("got %v, want an error that the connection broke", err)
		}
	}

	first := &liar{w: wire.NewWriter(guestOut), r: wire.NewReader(guestIn)}
	running, _ := first.started(t, conn)
	large := begin(strings.Repeat("x", wire.MaxPayload), "y")
	if f, err := first.r.Next(); err != nil || f.Type != wire.StartMore {
		t.Fatalf("%+v, %v", f, err)
	}
	_ = errors.Join(guestOut.Close(), guestIn.Close())
	failed(running)
	failed(wait.Receive(t, "the large request", large))
	wait.Receive(t, "the request for another stream", severed)
	meanwhile := begin("meanwhile")

	// One that ends at once is not the last.
	dead, none := io.Pipe()
	_ = none.Close()
	streams <- pair{dead, nopCloser{io.Discard}}
	wait.Receive(t, "the request for a third stream", severed)

	fromGuest, guestOut = io.Pipe()
	guestIn, toGuest = io.Pipe()
	streams <- pair{fromGuest, toGuest}
	next := &liar{w: wire.NewWriter(guestOut), r: wire.NewReader(guestIn)}
	next.answer(t)
	f, err := next.r.Next()
	if err != nil || f.Type != wire.Start {
		t.Fatalf("%+v, %v", f, err)
	}
	if req, err := wire.ParseStart(f.Payload()); err != nil || req.Args[0] != "meanwhile" {
		t.Errorf("asked for %+v, %v", req, err)
	}
	if err := next.w.SendJSON(wire.Exit, f.Channel, wire.ExitStatus{Code: 7}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if status, err := wait.Receive(t, "the request meanwhile", meanwhile).Wait(ctx); err != nil || status.Code != 7 {
		t.Errorf("%+v, %v", status, err)
	}
	close(streams)
	_ = guestOut.Close()
	if err := wait.Receive(t, "the end of the relay", over); !errors.Is(err, io.EOF) {
		t.Errorf("the relay ended with %v", err)
	}
}
