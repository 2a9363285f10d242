package fusefs

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// judgeMoved lowers the level of e as a directory to that of the path where the host has it.
func (lv *levels) judgeMoved(e *entry, lowerPath string) {
	_, l := lv.judgePath(lowerPath, true)
	e.levels[1] = min(lv.of(e, true), l)
}

// judgeDir is judgeMoved for obj, which is the entry e, at a in the directory d, and asks the gate again
// if the level is lower by that. What is no directory of an upper layer has been judged.
func (g *gatekeeper) judgeDir(o gate.Op, in *fuse.InHeader, e *entry, d openDir, a fdName, obj *object) syscall.Errno {
	if !d.upper || a.fd != d.fd || !obj.isDir() {
		return 0
	}
	fd, half, path, errno := g.openUpper(a)
	if errno != 0 {
		return errno
	}
	unix.Close(fd)
	if half != cow.Moved {
		return 0
	}
	before := g.levels.of(e, true)
	if g.levels.judgeMoved(e, path); g.levels.of(e, true) == before {
		return 0
	}
	return g.allowName(o, in, e, true)
}

// judgePath returns the level of the object at a path from the root, perm.None if a directory on
// the way is hidden, and the state inside it.
func (lv *levels) judgePath(path string, isDir bool) (perm.State, perm.Level) {
	s, hidden := lv.rules.Root(), false
	for {
		name, rest, more := strings.Cut(path, "/")
		l := lv.rules.Child(s, name, isDir || more)
		s = lv.rules.Enter(s, name)
		if hidden = hidden || l == perm.None; hidden {
			l = perm.None
		}
		if !more {
			return s, l
		}
		path = rest
	}
}

// judge returns the level of n at the entry called name of dir, which has the states s, and what
// holds inside n.
func (lv *levels) judge(n, dir *node, s states, name string) (perm.Level, states) {
	l, in := lv.child(s, name, n.isDir()), lv.inside(s, name, n.isDir())
	if n.layers != nil && n.borrows() {
		_, lower := lv.judgePath(n.layers.lowerPath(), false)
		l = min(l, lower)
	}
	if n.layers == nil || !n.isDir() {
		return l, in
	}
	switch half, path := n.half(dir, name); half {
	case cow.Own:
		in.lower = in.path
	case cow.Moved:
		var lower perm.Level
		in.lower, lower = lv.judgePath(path, true)
		l = min(l, lower)
	}
	return l, in
}
