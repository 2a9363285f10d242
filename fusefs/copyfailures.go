package fusefs

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
)

// retryAfter is the time after a failure in which a .git is not copied again. retrySoon is that
// time after an error of passing.
const retryAfter, retrySoon = 10 * time.Second, 100 * time.Millisecond

// passing are the errors after which a copy may soon succeed.
var passing = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.EAGAIN, syscall.EBUSY,
}

// maxFailed bounds the failures that are recorded.
const maxFailed = 1000

// A copyFailure records that a .git could not be copied.
type copyFailure struct {
	until  int64 // by names.clock
	errno  syscall.Errno
	reason string
}

// copyFailures are the failures of a tree. Its methods are safe for concurrent use.
type copyFailures struct {
	*names
	mu   sync.Mutex
	last map[string]copyFailure // by the path of the directory; guarded by mu
}

// of returns the failure to copy the .git of dir. It returns the zero value if no attempt has
// failed.
func (f *copyFailures) of(dir *node) copyFailure {
	at, errno := f.git.storePath(dir, "")
	if errno != 0 {
		return copyFailure{errno: errno}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[at]
}

// recently returns the errno of the last attempt at a path, if it is too early for another attempt.
func (f *copyFailures) recently(at string) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.last[at]; f.clock() < last.until {
		return last.errno
	}
	delete(f.last, at)
	return 0
}

// add records that the .git at a path could not be copied, and returns the errno for it.
func (f *copyFailures) add(at string, err error) (errno syscall.Errno) {
	f.Logger.Error("copy the host's git directory", "of", at, "error", err)
	again := retrySoon
	if !errors.As(err, &errno) || !slices.Contains(passing, errno) {
		errno, again = syscall.EACCES, retryAfter
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.last) < maxFailed {
		reason := "git directory of the host that cannot be copied: " + err.Error()
		f.last[at] = copyFailure{f.clock() + int64(again), errno, reason}
	}
	return errno
}
