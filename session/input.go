package session

import (
	"time"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// feed writes what waits to the command's standard input.
func (r *run) feed() {
	c := r.call
	for r.in.open && len(c.unread)+len(c.input) > 0 {
		b := c.unread
		if len(b) == 0 {
			b = c.input[0].Payload()[c.at:]
		}
		n, err := unix.Write(r.in.fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			if r.narrow() {
				continue
			}
			r.shell.ends.poll.watchRoom(r.in.fd, &r.in.watched, true)
			return
		case err != nil: // EPIPE: the command does not read any more
			n = len(b)
		}
		if len(c.unread) > 0 {
			c.unread = c.unread[n:]
			continue
		}
		f := &c.input[0]
		if c.at += n; c.at == len(f.Payload()) {
			n, c.at = len(f.Payload()), 0
			f.Release()
			c.input = c.input[1:]
			c.consumed(n)
		}
	}
	r.shell.ends.poll.watchRoom(r.in.fd, &r.in.watched, false)
	switch {
	case !c.closed || !r.in.open:
	case r.st.TTY:
		_, _ = unix.Write(r.in.fd, []byte{4}) // VEOF, ^D (termios(3))
		r.closeInput()
	case r.wasRead():
		r.closeInput()
	default:
		// Closed before the shell has opened it, it would never be opened: the
		// next look tries again.
		r.alarms.set(reportCheck, inputTick)
	}
}

// inputTick is how long to wait before looking whether the shell has opened
// its input.
const inputTick = time.Millisecond

// narrow closes the read side of the input, once the shell has opened it, so that the guest
// notices a command that does not read any more.
func (r *run) narrow() bool {
	if r.in.only || !r.wasRead() {
		return false
	}
	fd, _, err := r.shell.ends.dir.openFIFO(r.in.name, unix.O_WRONLY)
	if err != nil {
		return false
	}
	r.in.only = true
	r.shell.ends.poll.watchRoom(r.in.fd, &r.in.watched, false)
	_ = unix.Close(r.in.fd)
	r.in.fd = fd
	return true
}

// reclaimInput reads back the input that no process has read, for the next shell.
func (r *run) reclaimInput() {
	if r.call == nil || r.in.only {
		return
	}
	var back []byte
	buf := make([]byte, 32<<10)
	for len(back) < wire.Window { // more than a pipe has
		n, _ := read(r.in.fd, buf)
		if n <= 0 {
			break
		}
		back = append(back, buf[:n]...)
	}
	r.call.unread = append(back, r.call.unread...)
}

func (r *run) closeInput() {
	if !r.wasRead() {
		r.reclaimInput()
	}
	r.shell.ends.poll.watchRoom(r.in.fd, &r.in.watched, false)
	r.in.open = false
	closeFD(&r.in.fd)
	if r.in.name != "" {
		r.shell.ends.dir.unlink(r.in.name)
		r.in.name = ""
	}
}
