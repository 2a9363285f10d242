package fusefs

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
)

// pinAgain is how long after a failure a .git is not copied again; pinSoon after one that may pass.
const pinAgain, pinSoon = 10 * time.Second, 100 * time.Millisecond

// passing are the errors after which a copy may soon succeed.
var passing = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.EAGAIN, syscall.EBUSY,
}

// maxFailed bounds what is remembered of failures.
const maxFailed = 1000

// A pinFailed says that a .git could not be copied.
type pinFailed struct {
	until int64 // by names.clock
	errno syscall.Errno
	why   string
}

// pinFailures are those of a tree. Its methods are safe for concurrent use.
type pinFailures struct {
	*names
	mu   sync.Mutex
	last map[string]pinFailed // by the path of the directory; guarded by mu
}

// of returns why the .git of dir could not be copied; zero if it was not tried in vain.
func (f *pinFailures) of(dir *node) pinFailed {
	at, errno := f.git.storePath(dir, "")
	if errno != 0 {
		return pinFailed{errno: errno}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[at]
}

// recently returns the error of the last attempt at a path, if that is not to be repeated yet.
func (f *pinFailures) recently(at string) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.last[at]; f.clock() < last.until {
		return last.errno
	}
	delete(f.last, at)
	return 0
}

// add remembers that what is at a path could not be copied, and returns the errno for it.
func (f *pinFailures) add(at string, err error) (errno syscall.Errno) {
	f.logger.Error("copy the host's git directory", "of", at, "error", err)
	again := pinSoon
	if !errors.As(err, &errno) || !slices.Contains(passing, errno) {
		errno, again = syscall.EACCES, pinAgain
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.last) < maxFailed {
		why := "git directory of the host that cannot be copied: " + err.Error()
		f.last[at] = pinFailed{f.clock() + int64(again), errno, why}
	}
	return errno
}
