package session

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A mark is what the descendants of a shell are known by wherever they go, a
// daemon that has left its session, parents and streams among them: a limit on
// real-time processes that is as good as none, of which each shell has another
// one. Limits are inherited (setrlimit(2)). It is no defence: a process may
// lower its own. 0 is none.
type mark uint64

var marks atomic.Uint64

// newMark returns one that nobody has.
func newMark() mark { return mark(unix.RLIM_INFINITY - marks.Add(1)) }

// put gives a process the mark, if the kernel lets us.
func (m mark) put(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: uint64(m), Max: uint64(m)}, nil)
}

// on reports whether a process has the mark.
func (m mark) on(pid int) bool {
	if m == 0 {
		return false
	}
	var has unix.Rlimit
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &has) == nil && has.Max == uint64(m)
}
