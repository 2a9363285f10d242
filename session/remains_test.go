package session_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// A reader that stands still does not hold the session up once its command is over, and gets all
// of the output later.
func TestReaderStandsStill(t *testing.T) {
	const size = wire.Window + 2<<10 // more than goes out without a reader, and a terminal buffers the rest
	onTerminal := func(r *wire.StartRequest) { r.TTY, r.Rows, r.Cols = true, 24, 80 }
	for name, shell := range shells(t) {
		for _, c := range []struct {
			name, text string
			code       int
			change     func(*wire.StartRequest)
		}{
			{"TimedOut", "head -c 9000000 /dev/zero; sleep 100", 124, timeout(2 * time.Second)},
			{"Over", "head -c 526336 /dev/zero; (exit 3)", 3, nil},
			{"Errors", "head -c 526336 /dev/zero >&2; (exit 3)", 3, nil},
			{"Held", "sleep 1000 & head -c 526336 /dev/zero; (exit 3)", 3, nil},
			{"Ended", "head -c 526336 /dev/zero; exit 3", 3, nil},
			{"Terminal", "head -c 526336 /dev/zero; (exit 3)", 3, onTerminal},
		} {
			t.Run(name+c.name, func(t *testing.T) {
				s := open(t, shell)
				p := s.unread(t, c.text, c.change)
				if r := s.run(t, "echo next", timeout(30*time.Second)); r.stdout != "next\n" || r.err != nil || r.Code != 0 {
					t.Errorf("the next command: %v", r)
				}
				if n := readAll(t, p); n != size && (c.code != 124 || n < wire.Window) {
					t.Errorf("%d bytes, want %d", n, size)
				}
				if st := end(t, p); st.Code != c.code || st.TimedOut != (c.code == 124) || st.SessionEnded != (c.name == "Ended") {
					t.Errorf(`end: got st %+v; want st.Code == %v and st.TimedOut == c.code == 124 and st.SessionEnded == c.name == "Ended"`,
						st, c.code)
				}
				s.alive(t)
			})
		}
	}
}

// What a reader that stands still has yet to take is not the session's: it outlives it, and giving
// it up ends the reader only.
func TestRemains(t *testing.T) {
	s := open(t, "bash")
	first, second := s.unread(t, "head -c 570000 /dev/zero; (exit 3)", nil), s.unread(t, "head -c 570000 /dev/zero >&2; (exit 4)", withInput)
	s.alive(t)
	if _, err := second.Stdin().Write(make([]byte, 2*wire.Window)); err != nil { // no client reads it
		t.Error(err)
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	if st := end(t, second); st.Code != 4 {
		t.Errorf("given up: %+v", st)
	}
	s.alive(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if err := s.conn.DestroySession(ctx, s.name); err != nil {
		t.Fatal(err)
	}
	if n := readAll(t, first); n != 570000 {
		t.Errorf("%d bytes", n)
	}
	if st := end(t, first); st.Code != 3 {
		t.Errorf("end: got st %+v; want st.Code == 3", st)
	}
}

// unread starts a command whose output is not read; change may be nil.
func (s *sess) unread(t *testing.T, text string, change func(*wire.StartRequest)) *client.Process {
	t.Helper()
	req := wire.StartRequest{Args: []string{text}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name}}
	if change != nil {
		change(&req)
	}
	p, err := s.conn.Start(&client.Request{StartRequest: req})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readAll reads both outputs of a process to their end, and returns how many bytes there were.
func readAll(t *testing.T, p *client.Process) (size int) {
	t.Helper()
	var sizes [2]int64
	var wait sync.WaitGroup
	for i, r := range []io.Reader{p.Stdout(), p.Stderr()} {
		wait.Go(func() {
			var err error
			if sizes[i], err = io.Copy(io.Discard, r); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	return int(sizes[0] + sizes[1])
}

// end waits for the end of a process.
func end(t *testing.T, p *client.Process) wire.ExitStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	st, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
