package session

import (
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
	"wolffia/wire"
)

// maxCapture bounds the output of one of the session's own runs, in bytes.
const maxCapture = dialect.MaxSnapshot + 1<<20

// A stream is an output of the command that runs. It belongs to the session's turn.
type stream struct {
	pipe    *pipe // nil: the terminal
	typ     wire.Type
	fd      int
	call    *Call // it is sent to; nil: capture
	capture *excerpt.Excerpt
	poll    *poller
	paused  bool // poll does not watch it
	eof     bool
	over    bool // eof, or ended though held
	drain   proc.Drain
	clock   *Clock // of drain
}

// newStream returns a stream of a command, which poll watches; call is nil for the session's own.
func newStream(typ wire.Type, p *pipe, fd int, poll *poller, call *Call, clock *Clock) *stream {
	st := &stream{pipe: p, typ: typ, fd: fd, poll: poll, call: call, clock: clock}
	if call == nil {
		st.capture = excerpt.New(maxCapture, 0)
	}
	return st
}

// pump reads the available bytes, as far as it has credit, and passes them on. more says that it
// stopped to let other streams run. blocked says that it waits for credit.
func (st *stream) pump(reported bool) (more, blocked bool) {
	c := st.call
	var channel uint32
	if c != nil {
		channel = c.channel
	}
	for range 16 {
		room := wire.MaxPayload
		if c != nil && c.detached == nil && !(c.killed && c.credit[st.typ] == 0) { // else it is not for a channel
			if room = min(room, c.credit[st.typ]); room == 0 {
				return false, true
			}
		}
		f := wire.NewFrame(st.typ, channel)
		n, err := read(st.fd, f.Room()[:room])
		if n > 0 {
			f.SetLen(n)
			st.pass(&f)
		}
		f.Release()
		if st.took(n, err, reported) {
			return false, false
		}
	}
	return true, false
}

// pass passes on bytes that were read.
func (st *stream) pass(f *wire.Frame) {
	switch c, b := st.call, f.Payload(); {
	case c == nil:
		_, _ = st.capture.Write(b) // never fails
	case c.detached != nil:
		c.detached.write(st.typ, b)
	case c.credit[st.typ] > 0:
		c.credit[st.typ] -= len(b)
		if !c.finished {
			_ = c.w.Write(f) // a broken stream to the host ends the guest elsewhere
		}
	}
}

// rest reads the rest of the stream once its command has ended. It sets over if the stream has no
// more. Else blocked says that it waits for credit, and next when to call rest again.
func (st *stream) rest(now time.Time) (blocked bool, next time.Time) {
	more := false
	if !st.eof {
		more, blocked = st.pump(true)
	}
	if !st.eof && !st.drain.Held() {
		st.drain.Hold(proc.Buffered(st.fd))
	}
	switch {
	case st.eof, st.pipe == nil && !more && !blocked:
		st.over = true
	case blocked:
	case st.drain.Complete(now):
		st.over = true // a background process holds it
	case more:
		return false, now
	}
	return blocked, st.drain.Next()
}

func (st *stream) unwatch() {
	if !st.paused {
		st.paused = true
		st.poll.remove(st.fd)
	}
}

// rewatch watches a stream again that has more to come.
func (st *stream) rewatch() {
	if !st.eof && !st.over {
		st.watch()
	}
}

func (st *stream) watch() {
	if st.paused {
		st.paused = false
		st.poll.add(st.fd, unix.EPOLLIN)
	}
}

// took accounts for one read. It reports whether the stream has nothing more to read now.
func (st *stream) took(n int, err error, reported bool) bool {
	switch {
	case n > 0:
		if st.drain.Begun() {
			st.drain.Took(n, st.clock.Now())
		}
		return false
	case err == unix.EAGAIN:
		return true
	case err != nil, reported: // EIO: a terminal that no process has open
		st.eof = true
		return true
	}
	// No process has opened it yet, or all have closed it. It is the end only if a process had
	// opened it to write (POLLHUP) and nothing came meanwhile.
	ready := poll(st.fd)
	st.eof = ready&(unix.POLLIN|unix.POLLHUP) == unix.POLLHUP
	return ready&unix.POLLIN == 0
}

// read is read(2), also if a signal comes between.
func read(fd int, b []byte) (int, error) {
	for {
		if n, err := unix.Read(fd, b); err != unix.EINTR {
			return n, err
		}
	}
}

// poll returns for what a descriptor to read is ready now.
func poll(fd int) int16 {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds[:], 0)
	return fds[0].Revents
}
