package fusefs

import "sync/atomic"

const (
	// walkNames is after how many LOOKUPs, and again after as many, a tree looks whether somebody goes through it.
	walkNames = 256

	// walkReads is how many LOOKUPs there are for each READ, at least, if somebody looks at names only, as git status
	// or make do. Compilers and grep read what they find: they list the directories themselves, and need the processors
	// for the content.
	walkReads = 16
)

// walks reports whether somebody goes through the tree by name after name, after so many LOOKUPs and READs.
func walks(names, reads uint64) bool { return names%walkNames == 0 && reads*walkReads < names }

// A walking notices that somebody goes through a tree. It is safe for concurrent use.
type walking struct {
	report func() // called once, and once more after each again; nil: by nobody

	names    atomic.Uint64
	reported atomic.Bool
}

// again is called when the kernel has forgotten the tree: whoever goes through it asks for each name once more.
func (w *walking) again() { w.reported.Store(false) }

// looked counts a LOOKUP of name. Who lists the tree ahead asks for .gitignore only.
func (w *walking) looked(name string, reads *atomic.Uint64) {
	if w.report == nil || name == ".gitignore" || !walks(w.names.Add(1), reads.Load()) {
		return
	}
	if w.reported.CompareAndSwap(false, true) {
		w.report()
	}
}
