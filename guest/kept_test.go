package guest_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// A process that is to be kept outlives the connection of its client. Another client finds it,
// types, reads what it writes from then on, and gets its end.
func TestKept(t *testing.T) {
	host, connect, _ := startForClients(t)
	for _, tty := range []bool{false, true} {
		a, b := connect(), connect()
		label := strings.Repeat("l", wire.MaxLabel)
		pid := make(chan int, 1)
		p := begin(t, a, &client.Request{OnStarted: func(n int) { pid <- n }, StartRequest: wire.StartRequest{
			// more output than pipes and windows hold, and more input than is read
			Args: []string{"sh", "-c", `echo ready; head -c 2000000 /dev/zero | tr '\0' x >&2; read a; echo got $a; read b; echo and $b; exit 7`},
			Env:  env, Keep: label, Stdin: true, TTY: tty, TimeoutMS: uint64(wait.Limit.Milliseconds()),
		}})
		first := make([]byte, 5)
		if _, err := io.ReadFull(p.Stdout(), first); err != nil || string(first) != "ready" {
			t.Fatalf("got %q, %v", first, err)
		}
		number := uint32(wait.Receive(t, "the process's number", pid))
		if all := keptBy(t, host); len(all) != 0 {
			t.Errorf("it has a client, and is listed: %.100v", all)
		}
		if code, class := attachTo(t, b, number); code != 125 || class != wire.ClassNotFound {
			t.Errorf("a second client: %d %s", code, class)
		}
		_ = a.Close()
		wait.Until(t, "the process has no client", func() bool { return len(keptBy(t, host)) == 1 })
		if all := keptBy(t, host); all[0].PID != number || all[0].Label != label {
			t.Errorf("got %.100v", all)
		}
		again := begin(t, b, &client.Request{StartRequest: wire.StartRequest{Kept: &wire.KeptRequest{PID: number}}})
		go func() { _, _ = io.Copy(io.Discard, again.Stderr()) }()
		go func() {
			for _, line := range []string{"one\n", "two\n"} {
				_, _ = io.WriteString(again.Stdin(), line)
			}
		}()
		text := string(wait.Receive(t, "its output", async(func() []byte { b, _ := io.ReadAll(again.Stdout()); return b })))
		if text = strings.ReplaceAll(text, "\r", ""); !strings.Contains(text, "got one\n") || !strings.Contains(text, "and two\n") {
			t.Errorf("tty %t: got %q", tty, text[max(0, len(text)-200):])
		}
		if status, err := again.Wait(t.Context()); err != nil || status.Code != 7 {
			t.Errorf("got %+v, %v; want 7", status, err)
		}
		if code, class := attachTo(t, b, number); code != 125 || class != wire.ClassNotFound {
			t.Errorf("after its end: %d %s", code, class)
		}
	}
}

// A kept process can be killed, by its own client and by a later one.
func TestKillKept(t *testing.T) {
	host, connect, _ := startForClients(t)
	for _, later := range []bool{false, true} {
		a := connect()
		pid := make(chan int, 1)
		p := begin(t, a, &client.Request{OnStarted: func(n int) { pid <- n }, StartRequest: wire.StartRequest{
			Args: []string{"sleep", "1000"}, Env: env, Keep: "x",
		}})
		number := uint32(wait.Receive(t, "the process's number", pid))
		if later {
			_ = a.Close()
			wait.Until(t, "the process has no client", func() bool { return len(keptBy(t, host)) == 1 })
			p = begin(t, host, &client.Request{StartRequest: wire.StartRequest{Kept: &wire.KeptRequest{PID: number}}})
		}
		_ = p.Kill()
		if status, err := p.Wait(t.Context()); err != nil || status.Signal != 9 {
			t.Errorf("got %+v, %v; want signal 9", status, err)
		}
	}
	if all := keptBy(t, host); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
}

func begin(t *testing.T, conn *client.Conn, req *client.Request) *client.Process {
	t.Helper()
	p, err := conn.Start(req)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// async returns what f returns.
func async[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// attachTo fails to attach to a process.
func attachTo(t *testing.T, conn *client.Conn, pid uint32) (code int, class string) {
	t.Helper()
	_, err := begin(t, conn, &client.Request{StartRequest: wire.StartRequest{Kept: &wire.KeptRequest{PID: pid}}}).Wait(t.Context())
	var failed *client.StartError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	return failed.Code, failed.Class
}

func keptBy(t *testing.T, conn *client.Conn) (all []wire.KeptProcess) {
	t.Helper()
	p := begin(t, conn, &client.Request{StartRequest: wire.StartRequest{Kept: &wire.KeptRequest{}}})
	text, err := io.ReadAll(p.Stdout())
	if err == nil {
		_, err = p.Wait(t.Context())
	}
	if err = errors.Join(err, json.Unmarshal(text, &all)); err != nil {
		t.Fatal(err)
	}
	return all
}

// A host can say that a client has gone: a kept process goes on, whose channel ends, and another one
// is killed.
func TestDetach(t *testing.T) {
	p, _ := launch(t)
	w, r := wire.NewWriter(p), wire.NewReader(p)
	frames := make(chan wire.Frame)
	go func() {
		defer close(frames)
		for {
			f, err := r.Next()
			if err != nil {
				return
			}
			frames <- f
		}
	}()
	next := func(channel uint32, want wire.Type) (f wire.Frame) {
		t.Helper()
		for f = range frames {
			if f.Type != wire.StdoutEOF && f.Type != wire.StderrEOF {
				break
			}
		}
		if f.Type != want || f.Channel != channel {
			t.Fatalf("got a frame of type %d on channel %d, want %d on %d", f.Type, f.Channel, want, channel)
		}
		return f
	}
	ended := func(channel uint32, signal int) {
		t.Helper()
		var status wire.ExitStatus
		f := next(channel, wire.Exit)
		if err := wire.Decode(&f, &status); err != nil || status.Signal != signal {
			t.Errorf("channel %d: got %+v, %v; want signal %d", channel, status, err, signal)
		}
	}
	next(0, wire.Hello)
	sleep := &wire.StartRequest{Args: []string{"sleep", "1000"}, Env: env, Keep: "x"}
	ask := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ask(w.WriteStart(1, sleep))
	f := next(1, wire.Started)
	pid := binary.LittleEndian.Uint32(f.Payload())
	ask(w.Send(wire.Detach, 1, nil))
	ended(1, 0)
	ask(w.WriteStart(2, &wire.StartRequest{Kept: &wire.KeptRequest{PID: pid}}))
	next(2, wire.Started)
	ask(w.Send(wire.Kill, 2, nil))
	ended(2, 9)
	sleep.Keep = ""
	ask(w.WriteStart(3, sleep))
	next(3, wire.Started)
	ask(w.Send(wire.Detach, 3, nil))
	ended(3, 9)
	_ = p.Close()
}
