package filelock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld is the error of Exclusive and Try if another process has the lock.
var ErrHeld = errors.New("locked by another process")

// copyLimit is how long Exclusive waits for a lock: a child of a killed holder has a
// copy of it from fork to exec.
const copyLimit = time.Second

// Exclusive locks the file at path, which it creates if it is missing, against all
// other processes. A lock that is held is [ErrHeld] after a second. release may be
// called twice.
func Exclusive(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), copyLimit, ErrHeld)
	defer cancel()
	return Wait(ctx, f, unix.F_WRLCK, 0, 0)
}
