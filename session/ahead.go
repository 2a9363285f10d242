package session

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// An ahead is a session whose shell was started before anyone asked for it. The first session that would start with
// the same takes its place; the shell has not run anything until then.
type ahead struct {
	*Session
	host string // name of the host when the shell was started, which it has in a variable
}

// resetClock has a shell count its seconds from there on.
const resetClock = "SECONDS=0; "

// prepare starts a shell ahead. The call ends when that is at its prompt.
func (m *Manager) prepare(c *Call) {
	s, class, err := m.newSession(c.req, &wire.SessionStart{Env: c.req.Env, Dir: c.req.Dir})
	if err == nil && s.spec.d.POSIX { // it has no clock that can be reset
		class, err = wire.ClassUnsupported, errors.New("only bash is started ahead")
	}
	if err != nil {
		c.fail(class, err.Error())
		return
	}
	host := hostname()
	c.created = func() {
		m.mu.Lock()
		more := m.ahead != nil
		if !more {
			m.ahead = &ahead{s, host}
		}
		m.mu.Unlock()
		if more {
			s.turns.later(s.forgo)
		}
		c.exit(wire.ExitStatus{})
	}
	c.setHandler(s)
	s.withheld = resetClock
	s.turns.later(func() { s.start(c) })
}

// firstLines returns the first lines for a shell. Of one that is started ahead the last is withheld until it has its
// session: it then counts its seconds from there on, and has read as many lines as others.
func (s *Session) firstLines(p *shellProcess) []string {
	lines := p.d.Start(p.path(p.names.exit), p.path(p.names.guard))
	if s.withheld == "" {
		return lines
	}
	last := len(lines) - 1
	s.withheld = resetClock + lines[last]
	return lines[:last]
}

func hostname() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // fails for a bad address only
	return unix.ByteSliceToString(name.Nodename[:])
}

// takeAhead returns the session that was started ahead, if its shell is as that of s would be; nil: there is none. m.mu
// is held.
func (m *Manager) takeAhead(s *Session) *Session {
	a := m.ahead
	if a == nil || !a.spec.equal(&s.spec) || a.host != hostname() {
		return nil
	}
	m.ahead = nil
	return a.Session
}

// become has a session that was started ahead be s, for the call that creates s.
func (s *Session) become(asked *Session, c *Call) {
	s.name, s.procs.session, s.terms.program = asked.name, asked.name, asked.terms.program
	s.mu.Lock()
	s.info.Name, s.info.CreatedMS = s.name, time.Now().UnixMilli()
	s.mu.Unlock()
	if s.state == gone {
		s.m.forget(s)
		c.fail(wire.ClassUnavailable, fmt.Sprintf("session %q has failed", s.name))
		return
	}
	s.shell.send(s.withheld) // without a shell nothing: then one is started
	s.withheld = ""
	s.task = &task{kind: createTask, call: c}
	s.work()
}

// Forgo kills the shell that was started ahead, if no session has taken it, and returns its process; 0: there is none.
func (m *Manager) Forgo() (pid int) {
	m.mu.Lock()
	a := m.ahead
	m.ahead = nil
	m.mu.Unlock()
	if a == nil {
		return 0
	}
	a.turns.wait(func() {
		pid = a.procs.root
		a.forgo()
	})
	return pid
}

// forgo ends a session that has no name.
func (s *Session) forgo() {
	s.ending = true
	s.work()
}
