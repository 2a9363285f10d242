package session

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// A prestarted is a session whose shell was started before a caller asked for it. The first session
// with the same specification claims it. Until then the shell runs no command.
type prestarted struct {
	*Session
	host string // name of the host when the shell was started, which it has in a variable
}

// resetClock makes a shell count its seconds from this line on.
const resetClock = "SECONDS=0; "

// prestart starts a shell before a session needs it. The call ends when the shell is at its prompt.
func (m *Manager) prestart(c *Call) {
	s, class, err := m.newSession(c.req, &wire.SessionStart{Env: c.req.Env, Dir: c.req.Dir})
	if err == nil && s.spec.d.POSIX { // such a shell has no clock that can be reset
		class, err = wire.ClassUnsupported, errors.New("only bash is started ahead")
	}
	if err != nil {
		c.fail(class, err.Error())
		return
	}
	host := hostname()
	c.created = func() {
		m.mu.Lock()
		more := m.prestarted != nil
		if !more {
			m.prestarted = &prestarted{s, host}
		}
		m.mu.Unlock()
		if more {
			s.turns.later(s.discard)
		}
		c.exit(wire.ExitStatus{})
	}
	c.setHandler(s)
	s.deferredInput = resetClock
	s.turns.later(func() { s.start(c) })
}

// firstLines returns the first lines for a shell. The last line of a prestarted shell is deferred
// until a session claims the shell. The shell then counts its seconds from that line on, and has
// read as many lines as other shells.
func (s *Session) firstLines(p *shellProcess) []string {
	lines := p.d.Start(p.path(p.names.exit), p.path(p.names.guard))
	if s.deferredInput == "" {
		return lines
	}
	last := len(lines) - 1
	s.deferredInput = resetClock + lines[last]
	return lines[:last]
}

func hostname() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // fails for a bad address only
	return unix.ByteSliceToString(name.Nodename[:])
}

// claimPrestarted returns the prestarted session if its shell is as the shell of s would be, else
// nil. The caller holds m.mu.
func (m *Manager) claimPrestarted(s *Session) *Session {
	a := m.prestarted
	if a == nil || !a.spec.equal(&s.spec) || a.host != hostname() {
		return nil
	}
	m.prestarted = nil
	return a.Session
}

// activate gives the prestarted session s the name of asked, for the call that creates asked.
func (s *Session) activate(asked *Session, c *Call) {
	s.name, s.procs.session, s.terms.program = asked.name, asked.name, asked.terms.program
	s.mu.Lock()
	s.info.Name, s.info.CreatedMS = s.name, time.Now().UnixMilli()
	s.mu.Unlock()
	if s.state == terminated {
		s.m.forget(s)
		c.fail(wire.ClassUnavailable, fmt.Sprintf("session %q has failed", s.name))
		return
	}
	if umask := asked.spec.umask; umask != s.spec.umask {
		s.spec.umask = umask
		s.deferredInput = fmt.Sprintf("umask %04o; ", umask.Mask()) + s.deferredInput
	}
	s.shell.send(s.deferredInput) // does nothing without a shell: then work starts one
	s.deferredInput = ""
	s.task = &task{kind: createTask, call: c}
	s.work()
}

// DiscardPrestarted kills the prestarted shell if no session has claimed it, and returns its
// process ID. It returns 0 if there is no such shell.
func (m *Manager) DiscardPrestarted() (pid int) {
	m.mu.Lock()
	a := m.prestarted
	m.prestarted = nil
	m.mu.Unlock()
	if a == nil {
		return 0
	}
	a.turns.wait(func() {
		pid = a.procs.root
		a.discard()
	})
	return pid
}

// discard ends a prestarted session, which has no name.
func (s *Session) discard() {
	s.ending = true
	s.work()
}
