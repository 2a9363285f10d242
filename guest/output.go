package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// After the process is gone its pipes are read to their end. A background
// process may hold one open: then what was in the pipe when the process ended
// is read, and after that the stream ends as soon as it has been quiet for
// outputQuiet, or is outputGrace old.
const (
	outputQuiet = 10 * time.Millisecond
	outputGrace = 50 * time.Millisecond
)

// terminalOwed is more than lies in a terminal, whose buffers nobody can count:
// 8 KiB and a page, twice (drivers/tty/pty.c, n_tty.c). The process's end hangs
// it up, so that its end is seen; but whoever opens it by name may write on.
const terminalOwed = 64 << 10

// An output carries one stream of a process to the host, as far as the host
// has given credit for it.
type output struct {
	file   *os.File  // the read end; not blocking
	stream wire.Type // Stdout or Stderr
	tty    bool      // file is a terminal: a hang-up is its end

	mu     sync.Mutex
	change *sync.Cond // any of the fields below has changed; uses mu
	credit int        // bytes that may be sent; guarded by mu
	muted  bool       // nobody listens any more: read and drop; guarded by mu
	ended  time.Time  // when the process was gone; zero before; guarded by mu
	owed   int        // bytes in the pipe at that time and still there, at most; guarded by mu
}

func newOutput(file *os.File, stream wire.Type, tty bool) *output {
	o := &output{file: file, stream: stream, tty: tty, credit: wire.Window}
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

// mute makes the stream run dry without the host.
func (o *output) mute() {
	o.mu.Lock()
	o.muted = true
	o.change.Signal()
	o.mu.Unlock()
}

// finish says that the process is gone.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
	if o.tty {
		o.owed = terminalOwed
	} else if conn, err := o.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			// FIONREAD, alias TIOCINQ: how much lies in the pipe (ioctl_tty(2), pipe(7)).
			o.owed, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		})
	}
	_ = o.file.SetReadDeadline(o.ended.Add(outputQuiet))
	o.change.Signal()
}

// copy sends the stream until its end and closes the file. If a background
// process still holds the pipe, the rest is read and dropped for as long as
// it lives, so that it does not die of SIGPIPE; copy does not wait for that.
func (o *output) copy(channel uint32, w *wire.Writer) {
	held := o.send(channel, w)
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

// send reports whether the stream ended while somebody still held it.
func (o *output) send(channel uint32, w *wire.Writer) (held bool) {
	for {
		n, muted := o.await()
		f := wire.NewFrame(o.stream, channel)
		n, over, err := o.read(f.Room()[:n])
		if n > 0 && !muted {
			f.SetLen(n)
			_ = w.Write(&f) // a broken stream to the host ends the guest elsewhere
		}
		f.Release()
		switch {
		case over || errors.Is(err, unix.EAGAIN):
			return true
		case err != nil: // io.EOF; EIO from a terminal that nobody has open
			return false
		}
	}
}

// await returns how much may be read now; it waits for credit.
func (o *output) await() (n int, muted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.credit == 0 && !o.muted {
		o.change.Wait()
	}
	if o.muted {
		return wire.MaxPayload, true
	}
	return min(o.credit, wire.MaxPayload), false
}

// read waits for bytes or the end of the stream; once the process is gone it
// waits for outputQuiet at most and returns EAGAIN if there is nothing to read.
// It reports whether the stream is to end here.
func (o *output) read(b []byte) (n int, over bool, err error) {
	conn, err := o.file.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	waited := conn.Read(func(fd uintptr) (done bool) {
		n, over, err = o.take(fd, b)
		return err != unix.EAGAIN
	})
	if errors.Is(waited, os.ErrDeadlineExceeded) {
		// The deadline says nothing about what came in before it.
		_ = o.file.SetReadDeadline(time.Time{})
		waited = conn.Control(func(fd uintptr) { n, over, err = o.take(fd, b) })
	}
	if waited != nil {
		err = waited
	}
	return n, over, err
}

// take reads what is there, without waiting. It holds mu meanwhile: when finish
// counts what lies in the pipe, no bytes are on their way.
func (o *output) take(fd uintptr, b []byte) (n int, over bool, err error) {
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
	if !o.muted {
		o.credit -= n
	}
	if o.ended.IsZero() {
		return n, false, nil
	}
	o.owed -= n
	_ = o.file.SetReadDeadline(time.Now().Add(outputQuiet))
	return n, o.owed <= 0 && time.Since(o.ended) > outputGrace, nil
}
