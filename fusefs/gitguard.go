package fusefs

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/git/gitguard"
	"wolffia/perm"
)

// The guard of a working tree: what a sandbox makes there does not become a git directory for git
// on the host, and does not make it hang. Git directories themselves are the sandbox's own: see
// private.go.

// A worktreeGuard refuses names of what git on the host would take for more than a file.
type worktreeGuard struct {
	*names
	unguarded bool // Options.Unguarded
}

// Reasons for a refusal (Denial.Reason).
const (
	becomesGit = "git on the host would take the directory for a repository"
	spellsGit  = "git on another file system takes the name for .git"
	stallsGit  = "git on the host would hang when it opens the FIFO"
	leadsAway  = "programs on the host would find their settings through the link"
)

// refuses returns the reason to refuse e as a new name of an object of the type typ, or "". The
// directory of e is open as d.
func (w *worktreeGuard) refuses(e *entry, d openDir, typ uint32) string {
	switch {
	case w.levels.leads(e.dir.getState(), e.name, typ):
		return leadsAway
	case w.unguarded || e.dir.private():
	case gitguard.Spelled(e.name):
		return spellsGit
	case w.stalls(e, typ):
		return stallsGit
	case w.completes(e, d):
		return becomesGit
	}
	return ""
}

// leads reports whether an object of the type typ, as the entry called name of a directory with the
// states s, is a link in the place of a directory whose names the host executes.
func (lv *levels) leads(s states, name string, typ uint32) bool {
	if typ != unix.S_IFLNK || name != perm.FileWay {
		return false
	}
	in := lv.inside(s, name, true)
	return lv.child(in, "git", true) < perm.Write || lv.child(in, "systemd", true) < perm.Write
}

// completes reports whether the new entry e would make a git directory of its directory, which is
// open as d and is not named like one.
func (w *worktreeGuard) completes(e *entry, d openDir) bool {
	return gitguard.Essential(e.name) && !w.belowGit(e.dir) && !w.exists(d, e.name) &&
		gitguard.Complete(func(s string) bool { return s == e.name || w.exists(d, s) })
}

// belowGit reports whether dir is called .git, or is below such a directory: one that is served in
// place, or in the upper layer of a copied tree.
func (w *worktreeGuard) belowGit(dir *node) bool {
	for n := dir; n != nil; {
		parent, name := w.table.place(n)
		if name == gitName {
			return true
		}
		n = parent
	}
	return false
}

// claim keeps the tree servers of other sandboxes from making parts of a git directory beside e, in
// the host's directory that is open as d, until release is called: see completes.
func (w *worktreeGuard) claim(e *entry, d openDir) (release func(), errno syscall.Errno) {
	if w.copied != nil || w.unguarded || !gitguard.Essential(e.name) || e.dir.private() {
		return func() {}, 0
	}
	release, err := cow.Claim(d.fd, e.name)
	return release, errnoOf(err)
}

// gitOpens are the beginnings of the names that git opens in each directory of a working tree.
var gitOpens = []string{gitName, ".mailmap", ".lfsconfig"}

// stalls reports whether an object of the type typ would stall git on the host at e: a FIFO keeps a
// program that opens it waiting until its other end is opened. Sockets cannot be opened, and
// devices are refused everywhere.
func (w *worktreeGuard) stalls(e *entry, typ uint32) bool {
	if typ != unix.S_IFIFO || w.unguarded || e.dir.private() || w.levels.owns(e.dir.getState(), e.name) {
		return false
	}
	for _, name := range gitOpens {
		if len(e.name) >= len(name) && strings.EqualFold(e.name[:len(name)], name) {
			return true
		}
	}
	return false
}
