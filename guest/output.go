package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/wire"
)

// terminalBuffered is more than a terminal buffers, which no call counts: 8 KiB and a
// page, twice (drivers/tty/pty.c, n_tty.c). The process's end hangs the terminal up, so
// that its end of file is seen; but a process that opens it by name may write on.
const terminalBuffered = 64 << 10

// An output carries one stream of a process to the host, as far as the host
// has given credit for it.
type output struct {
	file   *os.File  // the read end; not blocking
	stream wire.Type // Stdout or Stderr
	tty    bool      // file is a terminal: a hang-up is its end

	mu     sync.Mutex
	change *sync.Cond // any of the fields below has changed; uses mu
	to     *place     // nil: nowhere; guarded by mu
	credit int        // bytes that may be sent; guarded by mu
	muted  bool       // read and drop: no host wants it; guarded by mu
	drain  proc.Drain // guarded by mu

	taker   *place      // of the bytes that take has returned last; copy's goroutine only
	sending *sync.Mutex // of the process
}

func newOutput(file *os.File, stream wire.Type, tty bool, to *place, sending *sync.Mutex) *output {
	o := &output{file: file, stream: stream, tty: tty, to: to, sending: sending, credit: wire.Window}
	o.change = sync.NewCond(&o.mu)
	return o
}

// grant adds credit.
func (o *output) grant(n int) {
	o.mu.Lock()
	o.credit = min(o.credit+n, wire.MaxCredit)
	o.change.Signal()
	o.mu.Unlock()
}

// mute has the stream read to its end without credit, and nothing of it sent.
func (o *output) mute() {
	o.mu.Lock()
	o.muted = true
	o.change.Signal()
	o.mu.Unlock()
}

// move has the stream sent to another place from now on; nil: nowhere. The caller holds o.sending.
func (o *output) move(to *place) {
	o.mu.Lock()
	o.to, o.credit, o.muted = to, wire.Window, to == nil
	o.change.Signal()
	o.mu.Unlock()
}

// finish notes that the process has ended.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.drain.Begin(now, proc.Quiet)
	if o.tty {
		o.drain.Hold(terminalBuffered)
	} else {
		control(o.file, func(fd int) { o.drain.Hold(proc.Buffered(fd)) })
	}
	_ = o.file.SetReadDeadline(now.Add(proc.Quiet))
	o.change.Signal()
}

// copy sends the stream until its end and closes the file. If a background
// process still holds the pipe, the rest is read and dropped for as long as
// it lives, so that it does not die of SIGPIPE; copy does not wait for that.
func (o *output) copy() {
	held := o.send()
	if held && !o.tty {
		_ = o.file.SetReadDeadline(time.Time{})
		go func() { // ends with the last process that holds the pipe
			_, _ = io.Copy(io.Discard, o.file)
			_ = o.file.Close()
		}()
		return
	}
	_ = o.file.Close()
}

// send sends the stream, and reports whether it ended while a process held it.
func (o *output) send() (held bool) {
	for {
		n := o.await()
		f := wire.NewFrame(o.stream, 0)
		n, complete, err := o.read(f.Room()[:n])
		if to := o.taker; n > 0 && to != nil {
			f.Channel = to.channel
			f.SetLen(n)
			o.sending.Lock()
			if o.place() == to {
				_ = to.w.Write(&f) // a broken stream to the host ends the guest elsewhere
			}
			o.sending.Unlock()
		}
		f.Release()
		switch {
		case complete || errors.Is(err, unix.EAGAIN):
			return true
		case err != nil: // io.EOF; EIO from a terminal that no process has open
			return false
		}
	}
}

func (o *output) place() *place {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to
}

// await waits for credit, and returns how much may be read.
func (o *output) await() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.credit == 0 && !o.muted {
		o.change.Wait()
	}
	if o.muted {
		return wire.MaxPayload
	}
	return min(o.credit, wire.MaxPayload)
}

// read waits for bytes or the end of the stream. Once the process has ended it waits for
// proc.Quiet at most, and returns EAGAIN if there is nothing to read. It reports whether the
// stream is complete.
func (o *output) read(b []byte) (n int, complete bool, err error) {
	conn, err := o.file.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	waited := conn.Read(func(fd uintptr) (done bool) {
		n, complete, err = o.take(fd, b)
		return err != unix.EAGAIN
	})
	if errors.Is(waited, os.ErrDeadlineExceeded) {
		// The deadline does not affect bytes that came before it.
		_ = o.file.SetReadDeadline(time.Time{})
		waited = conn.Control(func(fd uintptr) { n, complete, err = o.take(fd, b) })
	}
	if waited != nil {
		err = waited
	}
	return n, complete, err
}

// take reads the available bytes, without waiting. It holds mu meanwhile: when finish counts the
// bytes that the pipe buffers, no bytes are between the pipe and the drain.
func (o *output) take(fd uintptr, b []byte) (n int, complete bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if n, err = unix.Read(int(fd), b); err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return 0, false, err
	case n == 0:
		return 0, false, io.EOF
	}
	if o.taker = nil; !o.muted {
		o.credit -= n
		o.taker = o.to
	}
	if !o.drain.Begun() {
		return n, false, nil
	}
	now := time.Now()
	o.drain.Took(n, now)
	_ = o.file.SetReadDeadline(now.Add(proc.Quiet))
	return n, o.drain.Complete(now), nil
}
