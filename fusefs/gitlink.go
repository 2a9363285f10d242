package fusefs

import (
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// A symbolic link in a git directory leads git on the host where it makes and deletes files: git gc deletes what
// is in worktrees/*, and logs and refs have what a sandbox chooses. So one that is made inside leads nowhere else.

const gitSuffix = ".git"

const leadsGit = "git on the host would follow the link, and make and delete files where it leads"

// isBelowGit reports whether dir is a git directory by its name, such as .git and bare.git, or by a rule for it, or below one.
func (t *tree) isBelowGit(dir *node) bool {
	if !t.rules.Checks() {
		return false
	}
	for n := dir; n != nil; {
		parent, name := t.table.place(n)
		if len(name) >= len(gitSuffix) && strings.EqualFold(name[len(name)-len(gitSuffix):], gitSuffix) {
			return true
		}
		// Only a git directory's rules check this name and not that one.
		if s := n.getState(); t.childLevel(s, "commondir", false) == perm.Checked && t.childLevel(s, "HEAD", false) != perm.Checked {
			return true
		}
		n = parent
	}
	return false
}

// leads reports whether a symbolic link leads out of its directory. Git itself makes others only to see whether it can.
func leads(target string) bool {
	return target == ".." || strings.Contains(target, "/")
}

// misleads reports whether obj, which is at a, would lead git elsewhere in the directory dir: it is a link that leads out, or
// a directory that comes from elsewhere and can have one.
func (t *tree) misleads(dir, from *node, obj *object, a fdName) bool {
	switch obj.typ() {
	case unix.S_IFLNK:
		return t.linkMisleads(dir, a)
	case unix.S_IFDIR:
		return from != dir && t.isBelowGit(dir) && !t.isBelowGit(from)
	}
	return false
}

// misleadsGit returns the reason to refuse e as a new name of an object of the type typ: git on the host would follow it, act upon
// it, or hang. "": there is none. misleads reports whether a symbolic link leads git elsewhere from there; it is not called for other types.
func (t *tree) misleadsGit(e *entry, typ uint32, misleads func() bool) string {
	switch {
	case t.stalls(e, typ):
		return stallsGit
	case typ == unix.S_IFLNK && misleads():
		return leadsGit
	case t.isAside(e, typ == unix.S_IFDIR):
		return asideOfGit
	}
	if why := t.tracks(e); why != "" {
		return why
	}
	return t.strays(e.dir, e.name, typ)
}

// linkMisleads reports whether the symbolic link at a would lead git elsewhere in the directory dir.
func (t *tree) linkMisleads(dir *node, a fdName) bool {
	if !t.isBelowGit(dir) {
		return false
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(a.fd, a.name, buf)
	return err != nil || leads(string(buf[:n]))
}
