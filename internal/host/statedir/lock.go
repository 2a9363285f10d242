package statedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// The bytes of the lock file, which need not exist: docs/state.md. The lock is the first
// two, whose holders tell which of the two processes lives.
const (
	shimPart   = 0
	treePart   = 1
	parts      = 2
	configPart = 2
	callerPart = 3
)

// A Lock is a sandbox's lock, in two parts. Each part is held until it is unlocked, or
// until its file and all copies of it in other processes are closed.
type Lock struct {
	Shim, Tree *os.File
}

// Unlock releases the lock even if other processes have copies of the files: a child
// that another goroutine is starting has one for a moment.
func (l *Lock) Unlock() error {
	return errors.Join(filelock.Set(l.Shim, unix.F_OFD_SETLK, unix.F_UNLCK, 0, parts), filelock.Set(l.Tree, unix.F_OFD_SETLK, unix.F_UNLCK, 0, parts))
}

// Close closes the files: processes with copies of them hold the lock from now on.
func (l *Lock) Close() error { return errors.Join(l.Shim.Close(), l.Tree.Close()) }

// openLock opens the lock file to lock it. ErrNotFound: the sandbox does not exist.
func (rec *Record) openLock() (*os.File, error) {
	f, err := os.OpenFile(rec.Lockfile(), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, rec.openError(err)
	}
	return f, nil
}

// openError gives an error of opening the lock file its class.
func (rec *Record) openError(err error) error {
	// it is created before the configuration, and removed after it
	if errors.Is(err, fs.ErrNotExist) && rec.Stamp() == (statefile.Stamp{}) {
		return runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", rec.id)
	}
	return rec.lockError(err)
}

// RenewLock replaces the lock file if it is not one that can be locked, so that its
// holders are unknown. Only a caller that destroys the sandbox may call it.
func (rec *Record) RenewLock() error {
	var st unix.Stat_t
	err := unix.Lstat(rec.Lockfile(), &st)
	if err == nil && st.Mode&(unix.S_IFMT|0o600) == unix.S_IFREG|0o600 || errors.Is(err, fs.ErrNotExist) && rec.Stamp() == (statefile.Stamp{}) {
		return nil
	}
	_ = os.Remove(rec.Lockfile()) // also a directory
	if err := statefile.Create(rec.Lockfile(), nil); err != nil {
		return rec.lockError(err)
	}
	return nil
}

func (rec *Record) lockError(err error) error {
	if runtime.Exhausted(err) {
		return runtime.Errorf(runtime.ErrUnavailable, "lock of sandbox %s: %w", rec.id, err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "lock of sandbox %s: %w; if it is damaged, remove the sandbox with wolffia rm -f %s", rec.id, err, rec.id)
}

// held reports whether another process holds one of n parts from first on. The read locks
// of processes that wait (see WaitUnlocked) do not count.
func (rec *Record) held(first, n int64) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_RDLCK, Start: first, Len: n}
	if err := rec.query(&lk); err != nil {
		return false, err
	}
	return lk.Type != unix.F_UNLCK, nil
}

// query asks for a lock that conflicts with lk (F_OFD_GETLK in fcntl_locking(2)). It is what
// each call about a sandbox needs, so it opens the file without package os, which asks the
// poller first.
func (rec *Record) query(lk *unix.Flock_t) error {
	fd, err := unix.Open(rec.Lockfile(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return rec.openError(&fs.PathError{Op: "open", Path: rec.Lockfile(), Err: err})
	}
	defer unix.Close(fd)
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, lk); err != nil {
		return rec.lockError(err)
	}
	return nil
}

// Locked reports whether a shim or a tree server lives.
func (rec *Record) Locked() (bool, error) { return rec.held(0, parts) }

// holdAsCaller marks this process as the caller that the sandbox is bound to, as long as
// the file is open.
func (rec *Record) holdAsCaller() (*os.File, error) {
	f, err := rec.openLock()
	if err != nil {
		return nil, err
	}
	if err := filelock.Set(f, unix.F_OFD_SETLK, unix.F_WRLCK, callerPart, 1); err != nil {
		return nil, errors.Join(rec.lockError(err), f.Close())
	}
	return f, nil
}

// HasCaller reports whether the process that created the sandbox lives, if the sandbox
// is bound to it.
func (rec *Record) HasCaller() (bool, error) { return rec.held(callerPart, 1) }

// waiterGrace bounds the time that a try is repeated while the lock conflicts only with
// the read locks of processes that have waited for it, which they hold for a moment.
const waiterGrace = 200 * time.Millisecond

// TryLock takes the sandbox's lock. ErrConflict: another process holds it. The caller
// unlocks or closes it.
func (rec *Record) TryLock() (*Lock, error) { return tryPastWaiters(rec, rec.tryLock) }

func tryPastWaiters[T any](rec *Record, try func() (T, error)) (T, error) {
	for end := time.Now().Add(waiterGrace); ; {
		got, err := try()
		if !errors.Is(err, runtime.ErrConflict) || time.Now().After(end) {
			return got, err
		}
		if held, herr := rec.Locked(); held || herr != nil {
			return got, err
		}
		time.Sleep(waiterGrace / 1000) // no event reports the end of their locks
	}
}

func (rec *Record) tryLock() (_ *Lock, err error) {
	l := &Lock{}
	if l.Shim, err = rec.openLock(); err != nil {
		return nil, err
	}
	if l.Tree, err = rec.openLock(); err != nil {
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
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s is running or being started", rec.id)
	}
	return nil, rec.lockError(err)
}

// TryLockAll takes all of the sandbox's lock, as TryLock does, for a caller that starts nothing,
// by one descriptor. release unlocks it. ErrConflict: another process holds it.
func (rec *Record) TryLockAll() (release func(), err error) {
	return tryPastWaiters(rec, func() (func(), error) { return rec.tryPart(0, parts, "is running or being started") })
}

const notEnding = "its processes did not end in time"

// WaitTree waits for a tree server whose shim has ended, which it notices and then ends:
// until it has ended, limit has passed, or ctx ends. If the shim lives, or no tree
// server does, it does not wait.
func (rec *Record) WaitTree(ctx context.Context, limit time.Duration) {
	shim, err := rec.held(shimPart, 1)
	if err != nil || shim {
		return
	}
	if tree, err := rec.held(treePart, 1); err == nil && tree {
		_ = rec.WaitUnlocked(ctx, limit)
	}
}

// LockConfig keeps other processes from changing the configuration and from removing the
// sandbox. The sandbox may be gone when it returns. A caller that also needs TryLockAll or
// TryLock calls those after it. ErrUnavailable: limit has passed.
func (rec *Record) LockConfig(ctx context.Context, limit time.Duration) (release func(), err error) {
	f, err := rec.openLock()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("another process is changing it, and did not finish in time"))
	defer cancel()
	if release, err = filelock.Wait(ctx, f, unix.F_WRLCK, configPart, 1); err == nil {
		return release, nil
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.id, err)
}

// TryLockConfig is LockConfig without waiting. ErrConflict: another process has it.
func (rec *Record) TryLockConfig() (release func(), err error) {
	return rec.tryPart(configPart, 1, "is being changed by another process")
}

func (rec *Record) tryPart(first, n int64, held string) (release func(), err error) {
	f, err := rec.openLock()
	if err != nil {
		return nil, err
	}
	release, err = filelock.Try(f, first, n)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s %s", rec.id, held)
	case err != nil:
		return nil, rec.lockError(err)
	}
	return release, nil
}

// WaitUnlocked waits until no process holds the sandbox's lock: its shim and its tree server have
// ended. A sandbox without a directory is not locked. It waits for a read lock, which owners never hold:
// so a process that waits, or that has given up while the kernel still waits for it, does not make
// the sandbox look like a running one.
func (rec *Record) WaitUnlocked(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New(notEnding))
	defer cancel()
	err := filelock.WaitFree(ctx, func() (*os.File, error) { return rec.openLock() }, parts)
	if err == nil || errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.id, err)
}
