package console

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A keyboard is what is typed at our terminal, for several that read it one after the other: a
// command, and then the questions about its changes. It reads the terminal only while one of them
// waits: what is typed in between is for others, such as a pager in front of us.
type keyboard struct {
	in *os.File
	mu sync.Mutex // held while one waits
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
			return k.in.Read(b)
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
