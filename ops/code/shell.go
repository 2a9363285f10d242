package code

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"wolffia/ops"
	"wolffia/runtime"
)

// A shell is the engine of [Bash]: a session of the sandbox.
type shell struct {
	rt runtime.RuntimeWithSession
	id runtime.SessionID

	mu     sync.Mutex
	now    runtime.Process // what runs; nil: nothing. Guarded by mu
	closed bool            // guarded by mu
}

// startShell starts a session.
func startShell(ctx context.Context, rt runtime.RuntimeWithSession, sandbox, cwd string) (*shell, error) {
	name := "code-" + strings.ToLower(rand.Text())
	_, err := rt.CreateSession(ctx, sandbox, &runtime.SessionConfig{Name: name, Cwd: cwd})
	if err != nil {
		return nil, err
	}
	return &shell{rt: rt, id: runtime.SessionIn(sandbox, name)}, nil
}

func (s *shell) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *shell) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		_ = s.now.Signal(syscall.SIGINT)
	}
}

func (s *shell) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	go func() { // ends with its time, also if the sandbox does not answer
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		defer cancel()
		_ = s.rt.DestroySession(ctx, s.id)
	}()
}

// run implements engine.
func (s *shell) run(ctx context.Context, c *cell) error {
	sandbox, session, _ := s.id.Split()
	p, err := s.rt.StartProcess(ctx, sandbox, &runtime.Command{Command: []string{c.Code}, Session: session, Env: c.Env, Cwd: c.Cwd})
	if err != nil {
		s.lost(err)
		return err
	}
	s.set(p)
	defer s.set(nil)
	var one sync.Mutex
	pass := func(kind string) ops.Sink {
		return func(r io.Reader) error {
			return pieces(r, func(text string) error {
				one.Lock()
				defer one.Unlock()
				return c.emit(&Event{Type: kind, Text: text})
			})
		}
	}
	r, err := ops.Follow(ctx, p, pass(Stdout), pass(Stderr))
	if err != nil {
		s.lost(err)
		return err
	}
	if r.ExitCode == 0 {
		return nil
	}
	return c.emit(&Event{
		Type: Failed, Name: "ExitCode", Value: strconv.Itoa(r.ExitCode),
		Traceback: []string{(&runtime.ExitError{Result: r}).Error()},
	})
}

func (s *shell) set(p runtime.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = p
}

// lost notes that the session does not exist any more, if an error says so.
func (s *shell) lost(err error) {
	if errors.Is(err, runtime.ErrNotFound) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
	}
}

// pieces passes on what r has, as it comes, in whole characters.
func pieces(r io.Reader, pass func(string) error) error {
	buf, held := make([]byte, 32<<10), 0
	for {
		n, err := r.Read(buf[held:])
		text := buf[:held+n]
		keep := 0
		if err == nil {
			keep = unfinished(text, nil)
		}
		if out := text[:len(text)-keep]; len(out) > 0 {
			if err := pass(strings.ToValidUTF8(string(out), "\ufffd")); err != nil {
				return err
			}
		}
		held = copy(buf, text[len(text)-keep:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
