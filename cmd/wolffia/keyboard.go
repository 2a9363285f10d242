package main

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// A keyboard is what is typed at our terminal, in the pieces in which it is read, for several that read it one
// after the other: a command, and then the questions about its changes. A read that has begun cannot be taken
// back, so one goroutine reads for all, and what it gets goes to the one that asks. An empty piece is an end
// of input that was typed; the channel is closed at the end of the terminal.
type keyboard <-chan []byte

// keys returns the keyboard of our terminal, which is read from the first call on.
func (a *app) keys() keyboard {
	if a.keyboard != nil {
		return a.keyboard
	}
	pieces := make(chan []byte)
	a.keyboard = pieces
	go func() { // ends with the terminal, or with the program
		defer close(pieces)
		for {
			// A read that began in raw mode would not notice an end of input (n_tty_read in the kernel).
			ready := []unix.PollFd{{Fd: int32(a.in.Fd()), Events: unix.POLLIN}}
			if _, err := unix.Poll(ready, -1); errors.Is(err, unix.EINTR) {
				continue
			}
			buf := make([]byte, 4096)
			n, err := a.in.Read(buf)
			if err != nil && !errors.Is(err, io.EOF) {
				return
			}
			pieces <- buf[:n]
		}
	}()
	return a.keyboard
}

// A typist reads what is typed until over is closed. A nil channel is never closed.
type typist struct {
	keys keyboard
	over <-chan struct{}
	rest []byte
}

// Read is that of [io.Reader]. It returns io.EOF at each end of input that was typed.
func (t *typist) Read(b []byte) (int, error) {
	if len(t.rest) == 0 {
		select {
		case <-t.over: // what is typed from here on is for others
			return 0, io.EOF
		default:
		}
		select {
		case <-t.over:
			return 0, io.EOF
		case t.rest = <-t.keys:
		}
	}
	if len(t.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
