package statedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// A Lock is a sandbox's lock. It is held by the file and all copies of it that
// other processes have, until the last is closed, or one is unlocked.
type Lock struct{ *os.File }

// Unlock lets go of the lock whoever has copies: a child that is just being
// started by another goroutine has one, for a moment.
func (l *Lock) Unlock() error {
	return unix.FcntlFlock(l.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}

// openLock opens the file to lock; ErrNotFound: there is no such sandbox.
func (b *Box) openLock() (*Lock, error) {
	f, err := os.OpenFile(b.Lockfile(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", b.id)
	}
	if err != nil {
		return nil, b.lockError(err)
	}
	return &Lock{f}, nil
}

func (b *Box) lockError(err error) error {
	return runtime.Errorf(runtime.ErrUnavailable, "lock of sandbox %s: %w", b.id, err)
}

// Locked reports whether a shim, or what it has started, is there.
func (b *Box) Locked() (bool, error) {
	l, err := b.openLock()
	if err != nil {
		return false, err
	}
	defer l.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(l.Fd(), unix.F_OFD_GETLK, &lk); err != nil {
		return false, b.lockError(err)
	}
	return lk.Type != unix.F_UNLCK, nil
}

// TryLock takes the sandbox's lock, or says that another has it: ErrConflict.
// The caller unlocks or closes it.
func (b *Box) TryLock() (*Lock, error) {
	l, err := b.openLock()
	if err != nil {
		return nil, err
	}
	if err := unix.FcntlFlock(l.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		_ = l.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s is running, or on its way", b.id)
		}
		return nil, b.lockError(err)
	}
	return l, nil
}

// WaitLock takes the sandbox's lock as soon as nobody holds it: its shim and
// its tree server are gone. After limit it gives up: ErrUnavailable.
func (b *Box) WaitLock(ctx context.Context, limit time.Duration) (*Lock, error) {
	l, err := b.openLock()
	if err != nil {
		return nil, err
	}
	got := make(chan error)
	given := make(chan struct{}) // closed when nobody waits for it any more
	go func() {                  // ends when the lock is free, at the latest with the holders
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			err = unix.FcntlFlock(l.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		select {
		case got <- err:
		case <-given:
			_ = l.Unlock()
			_ = l.Close()
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err = <-got:
		if err == nil {
			return l, nil
		}
		_ = l.Close()
	case <-ctx.Done():
		err = ctx.Err()
		close(given)
	case <-timer.C:
		err = errors.New("its processes do not end")
		close(given)
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", b.id, err)
}

// WaitUnlocked waits until nobody holds the sandbox's lock; see WaitLock. A
// sandbox that is gone is not locked.
func (b *Box) WaitUnlocked(ctx context.Context, limit time.Duration) error {
	l, err := b.WaitLock(ctx, limit)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(l.Unlock(), l.Close())
}
