package session

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

func (s *Session) resize(rows, cols uint16) {
	s.rows, s.cols = rows, cols
	if s.shell != nil {
		_ = setSize(s.shell.tty, rows, cols)
	}
}

// postFor posts f for a call, or has its handler take over if it is another
// one by then.
func (s *Session) postFor(c *Call, other func(handler), f func()) {
	s.post(func() {
		if h := c.handler(); h != handler(s) {
			other(h)
			return
		}
		f()
	})
}

// The methods of handler: what a call's frames ask for.

func (s *Session) onInput(c *Call, f wire.Frame) {
	s.postFor(c, func(h handler) { h.onInput(c, f) }, func() {
		if c.finished || c.closed || !c.req.Stdin {
			n := len(f.Payload())
			f.Release()
			if !c.finished {
				c.consumed(n)
			}
			return
		}
		c.input = wire.Enqueue(c.input, f)
		s.feedCall(c)
	})
}

func (s *Session) feedCall(c *Call) {
	if s.cur != nil && s.cur.call == c && s.cur.in.open {
		s.feed()
	}
}

func (s *Session) onClose(c *Call) {
	s.postFor(c, func(h handler) { h.onClose(c) }, func() {
		c.closed = true
		s.feedCall(c)
	})
}

func (s *Session) onSignal(c *Call, sig syscall.Signal) {
	s.postFor(c, func(h handler) { h.onSignal(c, sig) }, func() {
		switch {
		case c.finished:
		case s.cur != nil && s.cur.call == c:
			if s.cur.phase != over {
				s.signalForeground(sig)
			}
		case sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT:
			s.withdraw(c) // it has not begun
		}
	})
}

func (s *Session) onKill(c *Call) {
	s.postFor(c, func(h handler) { h.onKill(c) }, func() {
		if c.finished {
			return
		}
		c.killed = true
		if s.cur != nil && s.cur.call == c {
			s.giveUpRun()
			return
		}
		s.withdraw(c)
	})
}

// giveUpRun ends the run of a caller that has given it up, or that loses it: no credit for
// its output will come any more.
func (s *Session) giveUpRun() {
	s.cur.killed, s.cur.call.killed = true, true
	for _, st := range s.cur.outs {
		s.rewatch(st)
	}
	s.happen(givenUp)
}

// withdraw takes a call back that waits for its turn, or for its shell.
func (s *Session) withdraw(c *Call) {
	c.killed = true
	for i, q := range s.queue {
		if q == c {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.publish()
			c.giveUp()
			return
		}
	}
}

func (s *Session) onResize(c *Call, rows, cols uint16) {
	s.postFor(c, func(h handler) { h.onResize(c, rows, cols) }, func() {
		if c.req.TTY && !c.finished {
			s.resize(rows, cols)
		}
	})
}

func (s *Session) onCredit(c *Call, typ wire.Type, n int) {
	s.postFor(c, func(h handler) { h.onCredit(c, typ, n) }, func() {
		c.addCredit(typ, n)
		if s.cur != nil && s.cur.call == c {
			s.happen(rest)
		}
	})
}
