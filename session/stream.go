package session

import (
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/proc"
	"wolffia/wire"
)

// maxCapture bounds the output of one of the session's own runs, in bytes.
const maxCapture = maxSnapshot + 1<<20

// A stream is an output of the command that runs. It belongs to the session's turn.
type stream struct {
	pipe    *pipe // nil: the terminal
	typ     wire.Type
	fd      int
	file    proc.File
	call    *Call // it is sent to; nil: capture
	capture *excerpt.Excerpt
	paused  bool // not watched
	eof     bool
	over    bool // eof, or ended though held
	drain   proc.Drain
}

// newStream returns a stream of a command; call is nil for the session's own.
func newStream(typ wire.Type, fd int, call *Call) *stream {
	st := &stream{typ: typ, fd: fd, call: call}
	if call == nil {
		st.capture = excerpt.New(maxCapture, 0)
	}
	return st
}

// pump reads what there is, as far as there is credit, and passes it on. more
// says that it stopped for the sake of others. blocked says that it waits for
// credit.
func (st *stream) pump(reported bool) (more, blocked bool) {
	for range 16 {
		room := wire.MaxPayload
		dropped := st.call == nil || st.call.detached != nil || st.call.killed && st.call.credit[st.typ] == 0
		if !dropped {
			room = min(room, st.call.credit[st.typ])
			if room == 0 {
				return false, true
			}
		}
		if dropped {
			var buf [16 << 10]byte
			n, err := unix.Read(st.fd, buf[:])
			switch {
			case n <= 0:
			case st.call == nil:
				_, _ = st.capture.Write(buf[:n]) // never fails
			case st.call.detached != nil:
				st.call.detached.write(st.typ, buf[:n])
			}
			if st.took(n, err, reported) {
				return false, false
			}
			continue
		}
		f := wire.NewFrame(st.typ, st.call.channel)
		n, err := unix.Read(st.fd, f.Room()[:room])
		if n > 0 {
			f.SetLen(n)
			if !st.call.finished {
				_ = st.call.w.Write(&f) // a broken stream to the host ends the guest elsewhere
			}
			st.call.credit[st.typ] -= min(n, st.call.credit[st.typ])
		}
		f.Release()
		if st.took(n, err, reported) {
			return false, false
		}
	}
	return true, false
}

// rest reads what is left of the stream once its command has ended. It sets over if that
// was all; else blocked says that it waits for credit, and next when to look again.
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

// took accounts for one read and reports whether there is nothing more now.
func (st *stream) took(n int, err error, reported bool) bool {
	switch {
	case n > 0:
		if st.drain.Begun() {
			st.drain.Took(n, time.Now())
		}
		return false
	case err == unix.EINTR:
		return false
	case err == unix.EAGAIN:
		return true
	case err != nil: // EIO: a terminal that no process has open
		st.eof = true
		return true
	case reported:
		st.eof = true
		return true
	}
	// No process has opened it yet, or all have closed it: it is the end only if
	// there was a writer (POLLHUP) and nothing came meanwhile.
	fds := []unix.PollFd{{Fd: int32(st.fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, 0)
	if fds[0].Revents&unix.POLLIN != 0 {
		return false
	}
	st.eof = fds[0].Revents&unix.POLLHUP != 0
	return true
}

// opened reports whether a process has opened the FIFO to write since it was
// opened to read.
func (st *stream) opened() bool {
	fds := []unix.PollFd{{Fd: int32(st.fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, 0)
	return fds[0].Revents != 0
}
