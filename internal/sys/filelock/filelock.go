// Package filelock waits for open file description locks, also on a range of a file
// (fcntl_locking(2)).
package filelock

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Set runs the lock operation op, such as F_OFD_SETLK, on n bytes of f from first on.
// The bytes need not exist; 0 bytes reach to the end of any file.
func Set(f *os.File, op int, kind int16, first, n int64) error {
	return unix.FcntlFlock(f.Fd(), op, &unix.Flock_t{Type: kind, Start: first, Len: n})
}

// setWait blocks until it has the lock.
func setWait(f *os.File, kind int16, first, n int64) error {
	for {
		if err := Set(f, unix.F_OFD_SETLKW, kind, first, n); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Try takes an exclusive lock or returns ErrHeld; otherwise it is Wait.
func Try(f *os.File, first, n int64) (release func(), err error) {
	err = Set(f, unix.F_OFD_SETLK, unix.F_WRLCK, first, n)
	if err == nil {
		return releaser(f, first, n), nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, ErrHeld
	}
	return nil, err
}

// releaser returns a function that unlocks and closes f. Closing is not enough: a child
// that another goroutine is starting has a copy for a moment.
func releaser(f *os.File, first, n int64) func() {
	return func() {
		_ = Set(f, unix.F_OFD_SETLK, unix.F_UNLCK, first, n)
		_ = f.Close()
	}
}

// Wait takes the lock of the given kind as soon as no other lock excludes it. It takes
// ownership of f: release unlocks and closes it, and an error closes it. If ctx ends
// before, Wait returns ctx's cause; the wait in the kernel, and f, then last until the
// lock is free.
func Wait(ctx context.Context, f *os.File, kind int16, first, n int64) (release func(), err error) {
	unlock := releaser(f, first, n)
	got := make(chan error)
	go func() { // ends when the lock is free, at the latest with its holders
		err := setWait(f, kind, first, n)
		select {
		case got <- err:
		case <-ctx.Done():
			unlock()
		}
	}()
	select {
	case err := <-got:
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return unlock, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
