package proc

import (
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Mark is what the descendants of a process are known by wherever they go, a
// daemon that has left its session, parents and streams among them: a limit on
// real-time processes that is as good as none, with another value for each mark.
// Limits are inherited (setrlimit(2)). It is not a defence: a process may lower its own.
// The zero Mark is on no process.
type Mark uint64

// marks is how far below infinity the latest mark is. It begins at a random number: a
// process sees those of others that use marks too, such as a sandbox within this one, and
// must not take their processes for its own.
var marks atomic.Uint64

func init() { marks.Store(rand.Uint64N(1 << 62)) }

// NewMark returns a mark that no process has.
func NewMark() Mark { return Mark(unix.RLIM_INFINITY - marks.Add(1)) }

// Put gives a process the mark, if the kernel permits it.
func (m Mark) Put(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: uint64(m), Max: uint64(m)}, nil)
}

// on reports whether a process has the mark.
func (m Mark) on(pid int) bool {
	if m == 0 {
		return false
	}
	var has unix.Rlimit
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &has) == nil && has.Max == uint64(m)
}
