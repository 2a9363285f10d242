package session

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

func (s *Session) resize(rows, cols uint16) {
	s.spec.rows, s.spec.cols = rows, cols
	if s.shell != nil {
		_ = setSize(s.shell.tty, rows, cols)
	}
}

// The methods of handler: what a call's frames ask for. They run in the session's turn.

func (s *Session) onInput(c *Call, f wire.Frame) {
	if c.finished || c.closed || !c.req.Stdin {
		ignore{}.onInput(c, f)
		return
	}
	c.input = wire.Enqueue(c.input, f)
	s.feedCall(c)
}

func (s *Session) feedCall(c *Call) {
	if s.cur != nil && s.cur.call == c && s.cur.in.open {
		s.cur.feed()
	}
}

func (s *Session) onClose(c *Call) {
	c.closed = true
	s.feedCall(c)
}

func (s *Session) onSignal(c *Call, sig syscall.Signal) {
	switch {
	case c.finished:
	case s.cur != nil && s.cur.call == c:
		if s.cur.phase != over {
			s.cur.signal(sig)
		}
	case sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT:
		s.withdraw(c) // it has not begun
	}
}

func (s *Session) onKill(c *Call) {
	switch {
	case c.finished:
	case s.cur != nil && s.cur.call == c:
		s.dispatch(callerGone)
	default:
		s.withdraw(c)
	}
}

// withdraw takes a call back that waits for its turn, or for its shell.
func (s *Session) withdraw(c *Call) {
	c.killed = true
	if i := slices.Index(s.queue, c); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		s.publish()
		c.giveUp()
	}
}

func (s *Session) onResize(c *Call, rows, cols uint16) {
	if !c.req.TTY || c.finished {
		return
	}
	c.req.Rows, c.req.Cols = rows, cols // for its turn
	if s.cur != nil && s.cur.call == c {
		s.resize(rows, cols)
	}
}

func (s *Session) onCredit(c *Call, typ wire.Type, n int) {
	c.addCredit(typ, n)
	if s.cur != nil && s.cur.call == c {
		s.dispatch(rest)
	}
}
