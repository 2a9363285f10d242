package session

import (
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// Leave has no session run anything more, since PID 1 is about to end. An interactive shell ignores
// SIGTERM (SIGNALS in bash(1)): it would go on with its next command as soon as the program that it waits for has died
// of that. So shells that run something are stopped, and go no further once they are
// continued. What they have started is left to PID 1's SIGTERM.
//
// It returns the shells of all sessions, each with the signal that is due as soon as its children are gone; 0: it is not
// stopped. It waits for each session's turn, but no longer than until over is closed.
func (m *Manager) Leave(over <-chan struct{}) map[int]unix.Signal {
	var mu sync.Mutex
	shells := map[int]unix.Signal{}
	var turns sync.WaitGroup
	for _, s := range m.named("") {
		turns.Add(1)
		s.turns.later(func() {
			defer turns.Done()
			mu.Lock()
			defer mu.Unlock()
			s.leave(shells)
		})
	}
	m.mu.Lock()
	if a := m.ahead; a != nil {
		m.ahead = nil
		a.turns.later(a.forgo)
	}
	m.mu.Unlock()
	all := make(chan struct{})
	go func() { // ends with the last turn
		turns.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-over:
	}
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(shells)
}

// leave is Leave for one session.
func (s *Session) leave(shells map[int]unix.Signal) {
	if s.state == gone {
		return
	}
	s.leaving = true
	if p := s.shell; p != nil {
		shells[p.pid] = s.cur.leave()
	}
	if t := s.terms.last.Load(); t != nil && t.alive() {
		shells[t.pid] = t.leave()
	}
	s.work()
}

// leave has the shell leave the text that is in it, if there is one. A text that it has not come to is never run.
func (r *run) leave() (due unix.Signal) {
	switch {
	case r == nil || r.phase == over || r.probe || r.shell.frozen:
	case !r.wasRead():
		_ = unix.Kill(r.shell.pid, unix.SIGKILL)
	case r.shell.atPrompt(): // it is about to report
	default:
		r.left, due = true, unix.SIGCONT
		if !r.shell.leaves() || r.saved.sticks(r.text) {
			due = unix.SIGKILL
		}
		if r.shell.stoppable() {
			_ = unix.Kill(r.shell.pid, unix.SIGSTOP)
			r.shell.guard()
			r.shell.frozen = true
			return due
		}
		if r.shell.guard(); due == unix.SIGKILL {
			_ = unix.Kill(r.shell.pid, due)
		}
		return 0
	}
	return due
}

// leave hangs the terminal up.
func (t *terminal) leave() (due unix.Signal) {
	t.control(func(fd int) {
		if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil { // else it cannot be stopped: see stoppable
			due = unix.SIGCONT
			_ = unix.Kill(t.pid, unix.SIGSTOP)
		}
	})
	_ = unix.Kill(t.pid, unix.SIGHUP)
	return due
}

// Settle waits until what has happened to the shells is dealt with, so that its results are sent.
func (m *Manager) Settle() {
	for _, s := range m.named("") {
		s.turns.wait(func() {})
	}
}

// leaveTasks gives up what has not begun.
func (s *Session) leaveTasks() {
	err := fmt.Errorf("session %q: the sandbox is being stopped", s.name)
	if s.task != nil {
		s.failTask(err)
	}
	s.failQueue(wire.ClassUnavailable, err)
}
