package statedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/filelock"
	"wolffia/internal/statefile"
	"wolffia/runtime"
)

// The lock has a part for each of the two processes that hold it: so it can be
// told which of them is there.
const (
	shimPart = 0 // offset of a byte that need not exist
	treePart = 1
	parts    = 2
	// configPart is no part of the lock: whoever changes the configuration, or
	// removes the sandbox, has it for a moment.
	configPart = 2
	// callerPart is held by whoever has made a sandbox that is bound to its
	// caller: while it has not been started, nothing else says that they live.
	callerPart = 3
)

// A Lock is a sandbox's lock, in two parts that are held by their files and
// all copies that other processes have of them, until the last is closed, or
// one is unlocked.
type Lock struct {
	Shim, Tree *os.File
}

// Unlock lets go of the lock whoever has copies: a child that is just being
// started by another goroutine has one, for a moment.
func (l *Lock) Unlock() error {
	return errors.Join(filelock.Set(l.Shim, unix.F_OFD_SETLK, unix.F_UNLCK, 0, parts), filelock.Set(l.Tree, unix.F_OFD_SETLK, unix.F_UNLCK, 0, parts))
}

// Close closes the files: what has copies of them holds the lock from now on.
func (l *Lock) Close() error { return errors.Join(l.Shim.Close(), l.Tree.Close()) }

// openLock opens the file to lock (O_RDWR), or to look at (O_RDONLY);
// ErrNotFound: there is no such sandbox.
func (b *Box) openLock(flags int) (*os.File, error) {
	f, err := os.OpenFile(b.Lockfile(), flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) && b.Stamp() == (Stamp{}) { // it goes last, and comes first
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", b.id)
	}
	if err != nil {
		return nil, b.lockError(err)
	}
	return f, nil
}

// RenewLock makes the lock anew if it is no file that can be locked: then nobody
// can tell who has it. It is for whoever destroys the sandbox.
func (b *Box) RenewLock() error {
	var st unix.Stat_t
	err := unix.Lstat(b.Lockfile(), &st)
	if err == nil && st.Mode&(unix.S_IFMT|0o600) == unix.S_IFREG|0o600 || errors.Is(err, fs.ErrNotExist) && b.Stamp() == (Stamp{}) {
		return nil
	}
	if err := os.Remove(b.Lockfile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b.lockError(err)
	}
	if err := statefile.Create(b.Lockfile(), nil); err != nil {
		return b.lockError(err)
	}
	return nil
}

func (b *Box) lockError(err error) error {
	return runtime.Errorf(runtime.ErrUnavailable, "lock of sandbox %s: %w; if it is damaged, remove the sandbox with wolffia rm -f %s", b.id, err, b.id)
}

// held reports whether anybody has one of n parts from first on. Who only waits for
// that to end does not count: see WaitUnlocked.
func (b *Box) held(first, n int64) (bool, error) {
	f, err := b.openLock(os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_RDLCK, Start: first, Len: n}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk); err != nil {
		return false, b.lockError(err)
	}
	return lk.Type != unix.F_UNLCK, nil
}

// Locked reports whether a shim or a tree server is there.
func (b *Box) Locked() (bool, error) { return b.held(0, parts) }

// holdAsCaller says that we are the caller to whom the sandbox is bound, as long
// as the file is open.
func (b *Box) holdAsCaller() (*os.File, error) {
	f, err := b.openLock(os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := filelock.Set(f, unix.F_OFD_SETLK, unix.F_WRLCK, callerPart, 1); err != nil {
		return nil, errors.Join(b.lockError(err), f.Close())
	}
	return f, nil
}

// HasCaller reports whether the process lives that has made the sandbox, if that
// is bound to it.
func (b *Box) HasCaller() (bool, error) { return b.held(callerPart, 1) }

// passing is how long TryLock bears with those that have waited for the lock: they
// have it for a moment.
const passing = 200 * time.Millisecond

// TryLock takes the sandbox's lock, or says that another has it: ErrConflict.
// The caller unlocks or closes it.
func (b *Box) TryLock() (*Lock, error) {
	for end := time.Now().Add(passing); ; {
		l, err := b.tryLock()
		if !errors.Is(err, runtime.ErrConflict) || time.Now().After(end) {
			return l, err
		}
		if held, herr := b.Locked(); held || herr != nil {
			return nil, err
		}
		time.Sleep(passing / 1000) // nobody tells when they are gone
	}
}

func (b *Box) tryLock() (_ *Lock, err error) {
	l := &Lock{}
	if l.Shim, err = b.openLock(os.O_RDWR); err != nil {
		return nil, err
	}
	if l.Tree, err = b.openLock(os.O_RDWR); err != nil {
		return nil, errors.Join(err, l.Shim.Close())
	}
	err = filelock.Set(l.Shim, unix.F_OFD_SETLK, unix.F_WRLCK, shimPart, 1)
	if err == nil {
		err = filelock.Set(l.Tree, unix.F_OFD_SETLK, unix.F_WRLCK, treePart, 1)
	}
	if err == nil {
		return l, nil
	}
	_ = l.Unlock()
	_ = l.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s is running, or on its way", b.id)
	}
	return nil, b.lockError(err)
}

// WaitLock takes all of the sandbox's lock as soon as nobody holds it: its
// shim and its tree server are gone. release lets go of it. After limit it
// gives up: ErrUnavailable.
func (b *Box) WaitLock(ctx context.Context, limit time.Duration) (release func(), err error) {
	return b.waitLock(ctx, limit, unix.F_WRLCK, 0, parts, notEnding)
}

const notEnding = "its processes do not end"

// WaitTree waits for a tree server whose shim is gone, which it has to notice
// only: until it is gone too, limit is over, or ctx ends. If a shim is there, or
// no tree server, it does not wait.
func (b *Box) WaitTree(ctx context.Context, limit time.Duration) {
	shim, err := b.held(shimPart, 1)
	if err != nil || shim {
		return
	}
	if tree, err := b.held(treePart, 1); err == nil && tree {
		_ = b.WaitUnlocked(ctx, limit)
	}
}

// LockConfig keeps everybody else from changing the configuration and from
// removing the sandbox, which may be gone when it returns. Who wants WaitLock or
// TryLock too takes those after it. After limit it gives up: ErrUnavailable.
func (b *Box) LockConfig(ctx context.Context, limit time.Duration) (release func(), err error) {
	return b.waitLock(ctx, limit, unix.F_WRLCK, configPart, 1, "somebody else is changing it, and does not finish")
}

// TryLockConfig is LockConfig that does not wait: if somebody else has it, that
// is ErrConflict.
func (b *Box) TryLockConfig() (release func(), err error) {
	f, err := b.openLock(os.O_RDWR)
	if err != nil {
		return nil, err
	}
	err = filelock.Set(f, unix.F_OFD_SETLK, unix.F_WRLCK, configPart, 1)
	switch {
	case err == nil:
		return func() {
			_ = filelock.Set(f, unix.F_OFD_SETLK, unix.F_UNLCK, configPart, 1)
			_ = f.Close()
		}, nil
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		err = runtime.Errorf(runtime.ErrConflict, "sandbox %s is being changed", b.id)
	default:
		err = b.lockError(err)
	}
	_ = f.Close()
	return nil, err
}

// waitLock waits for n parts from first on; late is why it gives up.
func (b *Box) waitLock(ctx context.Context, limit time.Duration, kind int16, first, n int64, late string) (release func(), err error) {
	f, err := b.openLock(os.O_RDWR)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New(late))
	defer cancel()
	if release, err = filelock.Wait(ctx, f, kind, first, n); err == nil {
		return release, nil
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", b.id, err)
}

// WaitUnlocked waits until nobody holds the sandbox's lock; see WaitLock. A
// sandbox that is gone is not locked. The wait is for a read lock, as those that
// have the lock never do: who waits, or has given up and is still asleep in the
// kernel, is not taken for a sandbox that runs.
func (b *Box) WaitUnlocked(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New(notEnding))
	defer cancel()
	err := filelock.WaitFree(ctx, func() (*os.File, error) { return b.openLock(os.O_RDWR) }, 0, parts)
	if err == nil || errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", b.id, err)
}
