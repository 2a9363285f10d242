package fusefs

import (
	"path"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/gitguard"
	"wolffia/perm"
)

// Files of the level perm.Checked are parts of a git directory. This file decides what may
// be done to them, gitrename.go about renames; package gitguard knows the parts and their
// content. Three rules hold for all parts:
//
//   - What was created outside is not changed, replaced or removed from inside.
//   - A file that git on the host acts upon comes into being by a rename onto its name. The
//     server writes the checked content to a new file: a process that holds the old file
//     open cannot change the new one.
//   - A directory that is not a git directory by its name does not become one.

// Reasons for a refusal (Denial.Why).
const (
	createdOutside = "it belongs to a git repository, or to a running git process, outside of this sandbox"
	becomesGit     = "git on the host would take the directory for a repository"
	asideOfGit     = "git on the host, or a program around it, would act upon that in the git directory of a submodule"
)

// isGitDir reports whether dir is, by its name or a rule for it, a git directory or a
// directory of git directories: names that make git act have a lower level than Write there.
func (t *tree) isGitDir(dir *node) bool {
	s := dir.getState()
	return t.childLevel(s, "config", false) < perm.Write || t.childLevel(s, "commondir", false) < perm.Write
}

// part returns what the entry called name in dir is to git; with an empty name, what dir
// is, which may then be a file.
func (t *tree) part(dir *node, name string) gitguard.Part {
	return gitguard.PartOf(t.table.path(dir, name))
}

// mayMake reports whether e, of the level Checked, may be created by o.
func (t *tree) mayMake(o op, e *entry) bool {
	if o != opCreate && o != opMknod && o != opMkdir {
		return false
	}
	p := t.part(e.dir, e.name)
	if p.Begun() && e.dir.getLevel() == perm.Checked && !t.created.mayHave(e.dir.ident()) {
		return false // in a rebase that was begun outside
	}
	if p.Copied() && !t.created.mayHave(e.dir.ident()) {
		return false // in a worktree that git outside has made: a new one is not to count as created inside
	}
	return p.Makes(o == opMkdir)
}

// mayChange reports whether o, which changes n of the level Checked, is allowed whatever
// the content. maySet decides further about opSetattr, writeOnce about opWrite.
func (t *tree) mayChange(o op, n *node) bool {
	p := t.part(n, "")
	if !t.created.mayHave(n.ident()) {
		return o == opSetattr && p == gitguard.Config // see probesModes
	}
	switch o {
	case opSetattr:
		return true
	case opWrite:
		return p.Writes() || p.Once()
	case opFallocate, opCopyTo:
		return p.Writes()
	}
	return false
}

// createdInside reports whether the file or directory open as h was created inside.
func (t *tree) createdInside(h *handle) bool {
	obj, errno := t.stat(fdName{fd: h.fd})
	return errno == 0 && t.created.has(fdName{fd: h.fd}, obj)
}

// An attrChange is a change of mode or size.
type attrChange struct {
	mode     uint32
	setsMode bool

	truncates bool // to size 0
	resizes   bool // to any other size
}

// maySet reports whether c is allowed for n, of the level Checked.
func (t *tree) maySet(n *node, c attrChange) bool {
	p := t.part(n, "")
	return t.created.mayHave(n.ident()) && (p.Writes() ||
		(!c.setsMode || c.mode&0o600 == 0o600) && !c.resizes && (!c.truncates || p.Once()))
}

// probesModes reports whether in changes nothing but bits to execute of a configuration that was created outside. So git init finds out
// whether modes can be changed, and writes that they cannot if it fails; nobody executes the file.
func (t *tree) probesModes(n *node, in *fuse.SetAttrIn) bool {
	mode, setsMode := in.GetMode()
	if !setsMode || in.Valid&(fuse.FATTR_SIZE|fuse.FATTR_UID|fuse.FATTR_GID|fuse.FATTR_ATIME|fuse.FATTR_MTIME|fuse.FATTR_ATIME_NOW|fuse.FATTR_MTIME_NOW) != 0 ||
		t.part(n, "") != gitguard.Config || t.created.mayHave(n.ident()) {
		return false
	}
	o, errno := t.statNode(n)
	return errno == 0 && o.typ() == unix.S_IFREG && (t.mode(o, perm.Checked, states{})^mode)&0o7777&^0o111 == 0
}

// noteCreated records that n, at name in the directory open as fd, was created just now.
// n may be nil.
func (t *tree) noteCreated(n *node, fd int, name string) {
	if n == nil || !t.rules.Checks() || n.getLevel() != perm.Checked && (!n.isDir() || !t.isGitDir(n)) {
		return
	}
	if obj, errno := t.stat(fdName{fd, name}); errno == 0 && obj.ident == n.ident() {
		t.created.add(fdName{fd, name}, obj)
	}
}

// completes reports whether the new entry e would make a git directory of its directory,
// which is open as d and is none by its name.
func (t *tree) completes(e *entry, d openDir) bool {
	if !t.rules.Checks() || !gitguard.Essential(e.name) || t.isGitDir(e.dir) {
		return false
	}
	return !t.exists(d, e.name) && gitguard.Complete(func(s string) bool { return s == e.name || t.exists(d, s) })
}

// isAside reports whether the new entry e would be what gitguard.Aside tells of.
func (t *tree) isAside(e *entry, empty bool) bool {
	return t.rules.Checks() && gitguard.Aside(t.table.path(e.dir, e.name), empty)
}

// claim keeps the tree servers of other sandboxes from making parts of a git directory beside e, in the host's directory
// that is open as d, until release is called: see completes.
func (t *tree) claim(e *entry, d openDir) (release func(), errno syscall.Errno) {
	if t.copied != nil || !t.rules.Checks() || !gitguard.Essential(e.name) || t.isGitDir(e.dir) {
		return func() {}, 0
	}
	release, err := cow.Claim(d.fd, e.name)
	return release, errnoOf(err)
}

// mustExist reports whether obj, at e, is a part without which a git directory that was
// created outside would not be one.
func (t *tree) mustExist(e *entry, obj *object) bool {
	return t.rules.Checks() && gitguard.Essential(e.name) && t.isGitDir(e.dir) &&
		!t.created.mayHave(e.dir.ident()) && !t.created.mayHave(obj.ident)
}

// unlinksWorktree reports whether e is a part of a linked working tree that git worktree remove deletes: the file .git of one below the
// root, or what makes the directory that the repository has for it a git directory. What is left executes nothing: files that come in
// their place are checked. Those of wolffia --worktree stay: wolffia removes them itself.
func (t *tree) unlinksWorktree(e *entry) bool {
	file := t.table.path(e.dir, e.name)
	if e.name != gitSuffix {
		return gitguard.OfWorktree(file) && (e.name == "commondir" || gitguard.Essential(e.name))
	}
	text, errno := t.textAt(file)
	dir := gitDirOf(file, t.shown, text)
	return errno == 0 && file != gitSuffix && gitguard.OfWorktree(path.Join(dir, "HEAD")) && !strings.HasPrefix(file, ".wolffia/")
}

// mustStay reports whether obj, at e, must not be moved: see mustExist, or it is a directory
// created outside that has checked files.
func (t *tree) mustStay(e *entry, obj *object) bool {
	return t.mustExist(e, obj) || obj.isDir() && t.rules.Checks() && !t.created.mayHave(obj.ident) &&
		t.checksInside(t.inside(e.dir.getState(), e.name, true))
}

// checksInside reports whether the rules check git's files in a directory with the states s.
func (t *tree) checksInside(s states) bool {
	return t.rules.Child(s.path, "config", false) == perm.Checked || s.renamed() && t.rules.Child(s.lower, "config", false) == perm.Checked
}

// closes reports whether the mode would make a git directory that was created outside
// unreadable for the host: its git would take the next one above for the repository.
func (t *tree) closes(n *node, mode uint32) bool {
	parent, name := t.table.place(n)
	if parent == nil || !t.rules.Checks() || t.created.mayHave(n.ident()) {
		return false
	}
	guarded := n.isDir() && t.isGitDir(n) || gitguard.Essential(name) && t.isGitDir(parent) && !t.created.mayHave(parent.ident())
	return guarded && (mode&0o600 != 0o600 || n.isDir() && mode&0o100 == 0)
}
