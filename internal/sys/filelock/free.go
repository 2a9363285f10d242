package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
)

// waits are the waits in the kernel, by file and range.
var waits singleflight.Group

// WaitFree waits until no lock excludes a read lock on the first n bytes of the
// file that open opens. If ctx ends before, it returns ctx's cause.
//
// A wait in the kernel cannot be cancelled: it continues, in a thread of its own,
// until the lock is free. All callers that wait for one range share one.
func WaitFree(ctx context.Context, open func() (*os.File, error), n int64) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	for {
		err := Set(f, unix.F_OFD_SETLK, unix.F_RDLCK, 0, n)
		if err == nil {
			return nil // closing f unlocks it
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			return err
		}
		wait := waits.DoChan(fmt.Sprint(st.Dev, st.Ino, n), func() (any, error) {
			own, err := open()
			if err != nil {
				return nil, err
			}
			defer own.Close()
			return nil, setWait(own, unix.F_RDLCK, 0, n)
		})
		select {
		case done := <-wait:
			if done.Err != nil {
				return done.Err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
