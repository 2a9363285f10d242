package fusefs

import "sync/atomic"

const (
	// checkEvery is the number of LOOKUPs after which a tree checks, again and again, whether a
	// process walks it.
	checkEvery = 256

	// lookupsPerRead is the lowest number of LOOKUPs for each READ at which a process is taken to
	// look up names only, as git status and make do. Compilers and grep read the files that they
	// find: they list the directories themselves, and need the processors for the content.
	lookupsPerRead = 16
)

// isSequential reports whether a process walks the tree by name, after so many LOOKUPs and READs.
func isSequential(names, reads uint64) bool {
	return names%checkEvery == 0 && reads*lookupsPerRead < names
}

// A sequentialLookups detects that a process walks a tree by name. It is safe for concurrent use.
type sequentialLookups struct {
	report func() // called once, and once more after each reset; may be nil

	names    atomic.Uint64
	reported atomic.Bool
}

// reset is called when the kernel has backing.Forgotten the tree's names: a process that walks the tree
// causes new LOOKUPs.
func (w *sequentialLookups) reset() { w.reported.Store(false) }

// count counts a LOOKUP of name. It ignores .gitignore, the only name that a prefetcher of the
// tree looks up.
func (w *sequentialLookups) count(name string, reads *atomic.Uint64) {
	if w.report == nil || name == ".gitignore" || !isSequential(w.names.Add(1), reads.Load()) {
		return
	}
	if w.reported.CompareAndSwap(false, true) {
		w.report()
	}
}
