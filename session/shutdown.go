package session

import (
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// Shutdown makes all sessions run nothing more, because PID 1 is about to end. An interactive
// shell ignores SIGTERM (SIGNALS in bash(1)): it would run its next command as soon as the program
// that it waits for has died of SIGTERM. So Shutdown stops the shells that run a command, and
// aborts their scripts. PID 1's SIGTERM ends the processes that the shells have started.
//
// Shutdown returns the shells of all sessions by process ID, each with the signal to send as soon
// as its children have ended; 0: the shell is not stopped. It waits for each session's turn, at
// most until over is closed.
func (m *Manager) Shutdown(over <-chan struct{}) map[int]unix.Signal {
	var mu sync.Mutex
	shells := map[int]unix.Signal{}
	var turns sync.WaitGroup
	for _, s := range m.named("") {
		turns.Add(1)
		s.turns.later(func() {
			defer turns.Done()
			mu.Lock()
			defer mu.Unlock()
			s.shutDown(shells)
		})
	}
	m.mu.Lock()
	if a := m.prestarted; a != nil {
		m.prestarted = nil
		a.turns.later(a.discard)
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

// shutDown is Shutdown for one session.
func (s *Session) shutDown(shells map[int]unix.Signal) {
	if s.state == terminated {
		return
	}
	s.shuttingDown = true
	if p := s.shell; p != nil {
		shells[p.pid] = s.cur.abortScript()
	}
	if t := s.terms.last.Load(); t != nil && t.alive() {
		shells[t.pid] = t.hangUp()
	}
	s.work()
}

// abortScript makes the shell abort the text that it executes. A text that the shell has not read
// is never run. r may be nil.
func (r *run) abortScript() (due unix.Signal) {
	switch {
	case r == nil || r.phase == over || r.probe || r.shell.frozen:
	case !r.wasRead():
		_ = unix.Kill(r.shell.pid, unix.SIGKILL)
	case r.shell.atPrompt(): // the shell is about to report
	default:
		r.aborted, due = true, unix.SIGCONT
		if !r.shell.trapsGuard() || r.saved.ignoresSignals(r.text) {
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

// hangUp hangs the terminal up.
func (t *terminal) hangUp() (due unix.Signal) {
	t.control(func(fd int) {
		if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil { // else it cannot be stopped: see stoppable
			due = unix.SIGCONT
			_ = unix.Kill(t.pid, unix.SIGSTOP)
		}
	})
	_ = unix.Kill(t.pid, unix.SIGHUP)
	return due
}

// Flush waits until all sessions have handled the events of their shells so far, and have sent the
// results.
func (m *Manager) Flush() {
	for _, s := range m.named("") {
		s.turns.wait(func() {})
	}
}

// failPending fails the calls that have not begun.
func (s *Session) failPending() {
	err := fmt.Errorf("session %q: the sandbox is being stopped", s.name)
	if s.task != nil {
		s.failTask(err)
	}
	s.failQueue(wire.ClassUnavailable, err)
}
