// Package filelock waits for open file description locks, also those on a part
// of a file (fcntl_locking(2)).
package filelock

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Set does a lock operation on n bytes from first on; they need not exist.
func Set(f *os.File, op int, kind int16, first, n int64) error {
	return unix.FcntlFlock(f.Fd(), op, &unix.Flock_t{Type: kind, Start: first, Len: n})
}

// Wait takes the lock as soon as nobody has one that excludes it, and takes f
// over: release lets go of the lock and closes f. If ctx ends before, it gives
// up with ctx's cause.
func Wait(ctx context.Context, f *os.File, kind int16, first, n int64) (release func(), err error) {
	letGo := func() {
		_ = Set(f, unix.F_OFD_SETLK, unix.F_UNLCK, first, n)
		_ = f.Close()
	}
	got := make(chan error)
	given := make(chan struct{}) // closed when nobody waits for it any more
	go func() {                  // ends when the lock is free, at the latest with the holders
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			err = Set(f, unix.F_OFD_SETLKW, kind, first, n)
		}
		select {
		case got <- err:
		case <-given:
			letGo()
		}
	}()
	select {
	case err := <-got:
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return letGo, nil
	case <-ctx.Done():
		close(given)
		return nil, context.Cause(ctx)
	}
}
