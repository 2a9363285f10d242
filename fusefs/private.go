package fusefs

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// gitName is the name of a git directory in a working tree, or of the file that leads to one.
const gitName = ".git"

// A Git makes a tree serve its own copy of each .git: the host's .git is never opened through the
// tree. The sandbox's .git of the directory P is Store/P/.git, and in a copied tree the .git of
// the upper layer. The first lookup copies the host's .git. The sandbox may change the copy in any
// way. This holds where the rules let .git be written; elsewhere the tree serves the host's .git
// by the rules.
type Git struct {
	// Store is a descriptor of the directory that mirrors those directories of the tree that have,
	// or had, a .git, of no use in a copied tree; and Work of an empty one on the same file
	// system, for temporary names. Nothing else writes to them while the tree is served. O_PATH is
	// enough. Serve duplicates both.
	Store, Work int

	Host GitHost

	// Monitor makes the tree git's file system monitor: see AskName.
	Monitor bool
	// Minimal tells that git inside ignores owners, inode numbers and times of attributes:
	// core.checkStat=minimal.
	Minimal bool
}

// A GitHost is the host's half of private git directories. Its methods are safe for concurrent use.
type GitHost interface {
	// CopyGitDir copies the entry .git of the directory dir, which the host has at path below the
	// root of the tree, to the directory store. The copy appears as a whole or not at all. dir and
	// store may be open with O_PATH.
	CopyGitDir(dir, store int, path string) error
	// Objects returns a descriptor of git directory number n of the host, whose objects the
	// sandbox may read; it stays the GitHost's. ok is false if there is no such number.
	Objects(n int) (fd int, ok bool)
	// Moved is called after the directory at the path from of the tree, in which the host may have
	// git directories, was renamed to to, or with swap both were exchanged.
	Moved(from, to string, swap bool) error
	// Changed is called after a change in a private git directory that may be one of a reference,
	// the index or HEAD.
	Changed()
}

// HostsName is the name of the directory that each directory in a private git directory has,
// without listing it, for what the host has: its entry N shows objects and lfs of the directory
// that GitHost.Objects returns for N.
const HostsName = "wolffia-host"

// shownOfHost are the entries of such a directory.
var shownOfHost = []string{"objects", "lfs"}

// A privateGit is the state of private git directories; nil: the tree has none.
type privateGit struct {
	*names
	store, work int // work has HostsName, with empty directories, and temporary names; store is -1 in a copied tree
	host        GitHost
	device      uint64 // of the tree's root
	temps       atomic.Uint64
	removedDirs removedDirs

	monitor gitMonitor

	upper  sync.Mutex // held while a .git is copied to an upper layer; taken before names.renameMu
	mu     sync.Mutex // held while a .git is copied to the store
	failed copyFailures
}

// newPrivateGit opens what g names. root is the root of the tree.
func newPrivateGit(ns *names, g *Git, root *backing.Object) (p *privateGit, err error) {
	p = &privateGit{names: ns, store: -1, work: -1, host: g.Host, device: root.ID.Dev}
	p.failed = copyFailures{names: ns, last: map[string]copyFailure{}}
	p.monitor.names, p.monitor.on, p.monitor.minimal = ns, g.Monitor, g.Minimal
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	all := []struct{ to, from *int }{{&p.work, &g.Work}, {&p.store, &g.Store}}
	if ns.copied != nil {
		all = all[:1]
	}
	for _, d := range all {
		fd, errno := backing.OpenBeneath(*d.from, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		if errno != 0 {
			return nil, errno
		}
		*d.to = fd
	}
	if err := unix.Mkdirat(p.work, HostsName, 0o755); err != nil && err != unix.EEXIST {
		return nil, err
	}
	return p, beneath.CheckNames(p.work)
}

// rest returns when nothing is done any more but what requests ask for. p may be nil.
func (p *privateGit) stop() {
	if p == nil {
		return
	}
	p.monitor.ahead.Wait()
	p.monitor.asked.Lock()
	defer p.monitor.asked.Unlock()
	if p.monitor.expiry != nil {
		p.monitor.expiry.Stop()
	}
	p.monitor.indexes = nil
}

// close closes the descriptors. p may be nil.
func (p *privateGit) close() {
	if p == nil {
		return
	}
	for _, fd := range []int{p.store, p.work} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// temp returns an unused name in work, which the next start empties.
func (p *privateGit) temp() string { return "t" + strconv.FormatUint(p.temps.Add(1), 36) }

// private reports whether the directory n is a private git directory, or below one.
func (n *node) private() bool { return n.isDir() && n.getState().path == inPrivate }

// isApart reports whether the entry called name of dir is not in the directory that dir is: see
// dirOf.
func (p *privateGit) isApart(dir *node, name string) bool {
	if p == nil {
		return false
	}
	s := dir.getState()
	return p.copied == nil && p.levels.owns(s, name) || s.path == inPrivate && name == HostsName && !dir.merges() ||
		s.path == inHosts && p.hostNumber(dir, name) >= 0
}

// hostNumber returns the number of the host's git directory whose entry the one called name of dir
// shows; -1: of none.
func (p *privateGit) hostNumber(dir *node, name string) int {
	if !slices.Contains(shownOfHost, name) {
		return -1
	}
	parent, number := p.table.place(dir)
	if parent == nil || !p.showsHosts(parent) {
		return -1
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || strconv.Itoa(n) != number {
		return -1
	}
	return n
}

// showsHosts reports whether dir is a directory HostsName of a private git directory.
func (p *privateGit) showsHosts(dir *node) bool {
	above, name := p.table.place(dir)
	return above != nil && name == HostsName && above.private()
}

// changedGit has GitHost.Changed called if the entry e, which was changed, is in a private git
// directory and no object.
func (p *privateGit) changedGit(e *entry) {
	if p == nil || !e.dir.private() && !p.levels.owns(e.dir.getState(), e.name) {
		return
	}
	if !ofObjects(p.table.path(e.dir, e.name)) {
		p.host.Changed()
	}
}

// ofObjects reports whether a path in a private git directory is below its objects. A reference
// can have any name below refs.
func ofObjects(at string) bool {
	_, below, _ := strings.Cut("/"+at, "/"+gitName+"/")
	for name := range strings.SplitSeq(below, "/") {
		switch name {
		case "objects":
			return true
		case "refs", "logs":
			return false
		}
	}
	return false
}

// freshens reports whether in sets only the times of n, an object of the host's, to the present.
// git inside does so when it needs an existing object, and git on the host then does not prune the
// object. In a copied tree, which changes nothing on the host, git then makes an object of its
// own.
func (p *privateGit) freshens(n *node, in *fuse.SetAttrIn) bool {
	const times = fuse.FATTR_ATIME | fuse.FATTR_MTIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW
	if p == nil || !n.isRegular() || in.Valid&times != times || in.Valid&^(times|fuse.FATTR_FH|fuse.FATTR_LOCKOWNER) != 0 {
		return false
	}
	parent, _ := p.table.place(n)
	return parent != nil && parent.getState().path == inHosts && n.getLevel() == perm.Read
}

// changedFile is changedGit for a change of the content of n.
func (p *privateGit) changedFile(n *node) {
	if !n.apart.Load() {
		return
	}
	if parent, name := p.table.place(n); parent != nil {
		e := newEntry(parent, name)
		p.changedGit(&e)
	}
}

// showsObjects reports whether n is a directory of a shown git directory of the host in which git
// there makes objects or packs: git inside lists it again when it lacks an object, and the kernel
// keeps a listing as long as it has the attributes.
func (p *privateGit) showsObjects(n *node) bool {
	if !n.isDir() || n.getState().path != inHosts {
		return false
	}
	dir, name := p.table.place(n)
	if name == "pack" || dir == nil || len(name) != len("aa") {
		return name == "pack"
	}
	above, name := p.table.place(dir) // git-lfs has such names too
	return above != nil && name == "objects" && p.hostNumber(above, name) >= 0
}

// gitOffset is the offset behind the sandbox's own .git, which is listed first. No file system
// uses it for its own entries.
const gitOffset = 1<<63 - 7

// listOwn lists the sandbox's own .git of dir, which is open as d. It reports whether there is
// room for more.
func (p *privateGit) listOwn(dir *node, d openDir, add func(*entry, openDir, fuse.DirEntry) bool) bool {
	h, errno := p.ownDir(dir, d.fd, false)
	if errno != 0 {
		return true // no .git, or a lookup returns the reason
	}
	own := openDir{handle: h}
	defer own.release()
	o, _, errno := p.statEntry(own, gitName)
	if errno != 0 {
		return true
	}
	e := newEntry(dir, gitName)
	return add(&e, own, fuse.DirEntry{Name: gitName, Mode: o.Type(), Ino: p.number(o), Off: gitOffset})
}

// number returns the number to be presented for the inode of o: the store may be on another file
// system than the tree, whose numbers could be the same.
func (p *privateGit) number(o *backing.Object) uint64 {
	if p != nil && o.ID.Dev != p.device {
		return o.Ino | apartBit
	}
	return o.Ino
}
