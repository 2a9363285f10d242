package filelock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// flockPoll is how often Flock looks whether a lock is free: no thread is left to wait in the
// kernel when a caller gives up.
const flockPoll = 5 * time.Millisecond

// Flock locks the directory at path against all others who do so, by flock(2), as soon as it is
// free. If ctx ends before, it returns ctx's cause. release may be called twice.
func Flock(ctx context.Context, path string) (release func(), err error) {
	return flock(ctx, path, unix.LOCK_EX)
}

// FlockShared is Flock against calls of Flock only.
func FlockShared(ctx context.Context, path string) (release func(), err error) {
	return flock(ctx, path, unix.LOCK_SH)
}

// TryFlock is Flock if no other process has the lock, and ErrHeld else.
func TryFlock(path string) (release func(), err error) {
	over, cancel := context.WithCancelCause(context.Background())
	cancel(ErrHeld)
	return Flock(over, path)
}

func flock(ctx context.Context, path string, how int) (release func(), err error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(dir.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() {
				// a process that is being started has a copy for a moment
				_ = unix.Flock(int(dir.Fd()), unix.LOCK_UN)
				_ = dir.Close()
			}, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = dir.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		select {
		case <-time.After(flockPoll):
		case <-ctx.Done():
			_ = dir.Close()
			return nil, context.Cause(ctx)
		}
	}
}
