package console

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A keyboard is what is typed at our terminal, for several that read it one after the other: a
// command, and then the questions about its changes. It reads the terminal only while one of them
// waits: what is typed in between is for others, such as a pager in front of us.
type keyboard struct {
	in    *os.File
	mu    sync.Mutex   // held while one waits
	early atomic.Int64 // how many of the next bytes were typed before the terminal was raw
}

// pending returns how many bytes were typed at a terminal and are not read yet.
func pending(fd int) int64 {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return int64(n)
}

// restoreEnds puts ctrl-d where it was typed before the terminal was raw: the kernel keeps it as a
// byte 0 (n_tty_receive_char_canon in drivers/tty/n_tty.c).
func (k *keyboard) restoreEnds(b []byte) {
	const ctrlD = 0x04
	early := b[:min(int64(len(b)), k.early.Load())]
	k.early.Add(-int64(len(early)))
	for i, c := range early {
		if c == 0 {
			early[i] = ctrlD
		}
	}
}

// read waits for what is typed into b. It returns io.EOF at each end of input that was typed, and
// when over is closed: a nil channel is never closed.
func (k *keyboard) read(b []byte, over <-chan struct{}) (int, error) {
	k.mu.Lock() // the one before is over, and leaves
	defer k.mu.Unlock()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, os.NewSyscallError("eventfd", err)
	}
	defer unix.Close(wake)
	var watching sync.WaitGroup
	defer watching.Wait()
	done := make(chan struct{})
	defer close(done)
	watching.Go(func() {
		select {
		case <-over:
			_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		case <-done:
		}
	})
	for {
		// A read that began in raw mode would not notice an end of input (n_tty_read in the
		// kernel).
		ready := []unix.PollFd{{Fd: int32(k.in.Fd()), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		_, err := unix.Poll(ready, -1)
		select {
		case <-over: // what is typed from here on is for others
			return 0, io.EOF
		default:
		}
		if err == nil {
			n, err := k.in.Read(b)
			k.restoreEnds(b[:n])
			return n, err
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("poll", err)
		}
	}
}

// A Typist reads what is typed until over is closed. A nil channel is never closed.
type Typist struct {
	keys *keyboard
	over <-chan struct{}
}

// Read is that of [io.Reader]. It returns io.EOF at each end of input that was typed, and at the
// end of the terminal.
func (t *Typist) Read(b []byte) (int, error) {
	n, err := t.keys.read(b, t.over)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// ReadLine returns the next line that is typed, without its end. rest is what was typed with the
// line before and is not a line yet; the new one is returned.
func (t *Typist) ReadLine(rest []byte) (line string, left []byte, err error) {
	for {
		if before, after, ok := bytes.Cut(rest, []byte("\n")); ok {
			return string(before), after, nil
		}
		if len(rest) > bufio.MaxScanTokenSize {
			return "", nil, bufio.ErrTooLong
		}
		var buf [4096]byte
		n, err := t.Read(buf[:])
		rest = append(rest, buf[:n]...)
		if err != nil {
			if len(rest) > 0 { // a line that has no end
				return string(rest), nil, nil
			}
			return "", nil, err
		}
	}
}
