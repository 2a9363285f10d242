package fusefs

import (
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
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
	fillsGit   = "git on the host reads the whole file into its memory: it can have 16 MiB"
	stallsGit  = "git on the host would hang when it opens the FIFO"
	leadsAway  = "programs on the host would find their settings through the link"
)

// refuses returns the reason to refuse e as a new name of an object of the type backing.Type, or "". The
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

// leads reports whether an object of the type backing.Type, as the entry called name of a directory with the
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
	return release, backing.Errno(err)
}

// gitOpens are the beginnings of the names that git opens in each directory of a working tree.
var gitOpens = []string{gitName, ".mailmap", ".lfsconfig"}

// gitReads are the names whose files git reads as a whole in each directory of a working tree, and
// maxGitRead the size to which they can grow: a longer one, which can have holes, would take the
// host's memory.
var gitReads = []string{".gitignore", ".gitattributes", ".gitmodules", ".mailmap", ".lfsconfig"}

const maxGitRead = 16 << 20

// isRead reports whether git on the host reads the whole file called name of dir. dir may be nil.
func (w *worktreeGuard) isRead(dir *node, name string) bool {
	return !w.unguarded && dir != nil && !dir.private() &&
		slices.ContainsFunc(gitReads, func(s string) bool { return strings.EqualFold(s, name) })
}

// allowSize returns EFBIG, and reports that, if git on the host reads n by one of its names and the
// file would become size bytes long by the operation o of the request in.
func (w *worktreeGuard) allowSize(g *gatekeeper, o gate.Op, in *fuse.InHeader, n *node, size int64) syscall.Errno {
	if size <= maxGitRead {
		return 0 // mostly
	}
	if dir, name := w.table.place(n); w.isRead(dir, name) {
		return g.deny(o, in, dir, name, perm.Write, syscall.EFBIG, fillsGit)
	}
	if !w.table.aliased(n) {
		return 0 // without memory for each write to a large file
	}
	for _, m := range w.table.links(n) {
		if dir, name := w.table.place(m); w.isRead(dir, name) {
			return g.deny(o, in, dir, name, perm.Write, syscall.EFBIG, fillsGit)
		}
	}
	return 0
}

// allowFile is allowSize for the file obj that is to have the name e.
func (w *worktreeGuard) allowFile(
	g *gatekeeper, o gate.Op, in *fuse.InHeader, e *entry, obj *backing.Object,
) syscall.Errno {
	if obj.Type() != unix.S_IFREG || obj.Size <= maxGitRead || !w.isRead(e.dir, e.name) {
		return 0
	}
	return g.deny(o, in, e.dir, e.name, perm.Write, syscall.EFBIG, fillsGit)
}

// stalls reports whether an object of the type backing.Type would stall git on the host at e: a FIFO keeps a
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
