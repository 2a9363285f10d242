package filelock

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A place is what several may wait for.
type place struct {
	dev, ino uint64
	first, n int64
}

// A wait is one thread's, on behalf of all who wait for the same.
type wait struct {
	over chan struct{} // closed when the lock was free, or could not be waited for
	err  error         // set before over is closed
}

var (
	mu    sync.Mutex
	waits = map[place]*wait{} // guarded by mu
)

// Free waits until nobody has a lock that excludes a read lock on n bytes from first on
// of the file that open opens. If ctx ends before, it gives up with ctx's cause. The
// kernel goes on waiting then, in a thread that cannot be called back: there is one for
// each place, however many have asked.
func Free(ctx context.Context, open func() (*os.File, error), first, n int64) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		err := Set(f, unix.F_OFD_SETLK, unix.F_RDLCK, first, n)
		if err == nil {
			return nil // and let go of with f
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			return err
		}
		w, err := join(f, open, first, n)
		if err != nil {
			return err
		}
		select {
		case <-w.over:
			if w.err != nil {
				return w.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// join returns the wait for a place of the file, which may have to begin.
func join(f *os.File, open func() (*os.File, error), first, n int64) (*wait, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	at := place{st.Dev, st.Ino, first, n}
	mu.Lock()
	defer mu.Unlock()
	if w := waits[at]; w != nil {
		return w, nil
	}
	own, err := open()
	if err != nil {
		return nil, err
	}
	w := &wait{over: make(chan struct{})}
	waits[at] = w
	go func() { // ends when the lock is free, at the latest with the holders
		defer own.Close()
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			err = Set(own, unix.F_OFD_SETLKW, unix.F_RDLCK, first, n)
		}
		mu.Lock()
		delete(waits, at)
		mu.Unlock()
		w.err = err
		close(w.over)
	}()
	return w, nil
}
