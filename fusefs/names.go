package fusefs

import (
	"sync"
	"sync/atomic"
	"time"
)

// names are the nodes of a tree, and the ways to what they name on the backing file system: by a path of names that is
// walked, and walked again when it may have changed. They are what all parts of a tree share.
type names struct {
	backing
	levels levels

	// changeMu is held for reading while a request of changing is answered, for writing by
	// Quiesce and SetRules.
	changeMu sync.RWMutex

	// renameMu is held while names of the backing file system are used together with the
	// table: for writing by what changes both.
	renameMu sync.RWMutex

	start   time.Time
	timeout time.Duration

	table *table
	fds   *fdCache
	root  *handle // nil: it is given later; guarded by rulesMu until then
	inval *invalQueue
	watch *watcher // nil: the host's changes are not noticed

	git    *privateGit // nil: git directories are served by the rules
	copied *upperLayer // nil: changes go to the host's directory
	lower  *lowerLayer // nil as copied

	links      atomic.Uint64 // hard links that were made, not those in private git directories
	dirsWalked atomic.Uint64 // directories that validatePath has looked at
}
