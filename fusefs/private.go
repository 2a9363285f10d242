package fusefs

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/beneath"
	"wolffia/perm"
)

// gitName is the name of a git directory in a working tree, or of the file that leads to one.
const gitName = ".git"

// A Git has a direct tree keep each name .git of its own: the host's is never opened through the tree. The sandbox's .git of
// the directory P is Store/P/.git. It is made when it is first looked for, by a copy of what the host has, and may be changed
// in any way. This is so where the rules let .git be written; elsewhere the host's own is served by the rules.
type Git struct {
	// Store is a descriptor of the directory that mirrors those directories of the tree that have, or had, a .git; and
	// Work of an empty one on the same file system, for temporary names. Nothing else writes to them while the tree is
	// served. O_PATH is enough. Serve duplicates both.
	Store, Work int

	Host GitHost
}

// A GitHost is the host's half of private git directories. Its methods are safe for concurrent use.
type GitHost interface {
	// Pin makes the entry .git of the directory store: a copy of the one in the directory dir, which the host has at the
	// path from the root of the tree; all of it at once, or nothing. dir and store may be open with O_PATH.
	Pin(dir, store int, path string) error
	// Objects returns a descriptor of git directory number n of the host, whose objects the sandbox may read; it
	// stays the GitHost's. ok is false if there is no such number.
	Objects(n int) (fd int, ok bool)
	// Changed is called after a change in a private git directory that may be one of a reference, the index or HEAD.
	Changed()
}

// HostsName is the name of the directory in a private git directory that shows what the host has: its entry N
// shows objects and lfs of the directory that GitHost.Objects returns for N.
const HostsName = "wolffia-host"

// shownOfHost are the entries of such a directory.
var shownOfHost = []string{"objects", "lfs"}

// The states of directories that the rules do not know. In a private git directory all may be changed, and in what
// HostsName shows all may be read, but for the host's own alternates, whose paths git inside would not find.
const (
	inPrivate perm.State = -1
	inHosts   perm.State = -2

	alternates = "alternates"
)

// A privateGit is the state of private git directories; nil: the tree has none.
type privateGit struct {
	store, work int
	host        GitHost
	mu          sync.Mutex // held while a .git is pinned
	temps       uint64     // of work; guarded by tree.renameMu, held for writing
	device      uint64     // of the tree's root
	gone        gone
}

// newPrivateGit opens what g names. root is the root of the tree.
func newPrivateGit(g *Git, root *object) (p *privateGit, err error) {
	p = &privateGit{store: -1, work: -1, host: g.Host, device: root.ident.dev}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, d := range []struct{ to, from *int }{{&p.store, &g.Store}, {&p.work, &g.Work}} {
		fd, errno := openBeneath(*d.from, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		if errno != 0 {
			return nil, errno
		}
		*d.to = fd
	}
	if err := beneath.CheckNames(p.store); err != nil {
		return nil, err
	}
	return p, nil
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

// private reports whether the directory n is a private git directory, or below one.
func (n *node) private() bool { return n.isDir() && n.getState().path == inPrivate }

// owns reports whether the entry called name of a directory with the states s is the sandbox's own .git.
func (t *tree) owns(s states, name string) bool {
	return name == gitName && t.git != nil && s.path >= 0 &&
		t.rules.Child(s.path, gitName, true) == perm.Write && t.rules.Child(s.path, gitName, false) == perm.Write
}

// isPrivate reports whether the entry called name of dir is the sandbox's own .git, or in one.
func (t *tree) isPrivate(dir *node, name string) bool {
	return dir.private() || t.owns(dir.getState(), name)
}

// isApart reports whether the entry called name of dir is not in the directory that dir is: see dirOf.
func (t *tree) isApart(dir *node, name string) bool {
	if t.git == nil {
		return false
	}
	s := dir.getState()
	return t.owns(s, name) || s.path == inHosts && t.hostNumber(dir, name) >= 0
}

// hostNumber returns the number of the host's git directory whose entry the one called name of dir shows; -1: of none.
func (t *tree) hostNumber(dir *node, name string) int {
	parent, number := t.table.place(dir)
	if parent == nil || name != shownOfHost[0] && name != shownOfHost[1] {
		return -1
	}
	if above, is := t.table.place(parent); above == nil || is != HostsName || !above.private() {
		return -1
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || strconv.Itoa(n) != number {
		return -1
	}
	return n
}

// dirOf opens the directory that has the entry called name of dir: for the sandbox's own .git its place in the store, for
// what is shown of the host that directory, else dir itself. ENOENT: there is no such place. The caller holds
// t.renameMu, and releases the result.
func (t *tree) dirOf(dir *node, name string) (openDir, syscall.Errno) {
	if !t.isApart(dir, name) {
		return t.halves(dir)
	}
	if t.owns(dir.getState(), name) {
		h, errno := t.stored(dir, false)
		return openDir{handle: h}, errno
	}
	if h := t.fds.cached(dir, useLower); h != nil {
		return openDir{handle: h}, 0
	}
	fd, ok := t.git.host.Objects(t.hostNumber(dir, name))
	if !ok {
		return openDir{}, syscall.ENOENT
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return openDir{}, errnoOf(err)
	}
	return openDir{handle: t.fds.add(dir, useLower, own)}, 0
}

// acquireEntry is acquireDir for the directory that has the entry e: see dirOf. The sandbox's own .git is pinned
// if it was not yet. With makes, for a name that is about to be made, that directory is made too, and a whiteout is
// taken away.
func (t *tree) acquireEntry(e *entry, makes bool) (openDir, syscall.Errno) {
	d, errno := t.acquireDir(e.dir)
	if errno != 0 || !t.isApart(e.dir, e.name) {
		return d, errno
	}
	defer d.release()
	if !t.owns(e.dir.getState(), e.name) {
		return t.dirOf(e.dir, e.name)
	}
	if errno := t.pin(e.dir, d.fd); errno != 0 {
		return openDir{}, errno
	}
	h, errno := t.stored(e.dir, makes)
	if errno == 0 && makes {
		if o, absent := t.stat(fdName{h.fd, gitName}); absent == 0 && isWhiteout(o) {
			_ = unix.Unlinkat(h.fd, gitName, 0)
		}
	}
	return openDir{handle: h}, errno
}

// pin has the host's .git of dir, which is open as fd, copied to the store, unless the store has one, or a whiteout. The
// caller holds t.renameMu.
func (t *tree) pin(dir *node, fd int) syscall.Errno {
	t.git.mu.Lock()
	defer t.git.mu.Unlock()
	if h, errno := t.stored(dir, false); errno == 0 {
		_, errno = t.stat(fdName{h.fd, gitName})
		h.release()
		if errno != syscall.ENOENT {
			return errno
		}
	} else if errno != syscall.ENOENT {
		return errno
	}
	switch o, errno := t.stat(fdName{fd, gitName}); {
	case errno == syscall.ENOENT:
		return 0
	case errno != 0:
		return errno
	case o.isMount():
		return syscall.EACCES // as find
	}
	h, errno := t.stored(dir, true)
	if errno != 0 {
		return errno
	}
	defer h.release()
	at := t.table.path(dir, "")
	if err := t.git.host.Pin(fd, h.fd, at); err != nil {
		t.logger.Error("copy the host's git directory", "of", at, "error", err)
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return errno
		}
		return syscall.EIO
	}
	return 0
}

// stored opens the directory of the store that mirrors dir, and with makes makes it. The caller holds t.renameMu.
func (t *tree) stored(dir *node, makes bool) (*handle, syscall.Errno) {
	if h := t.fds.cached(dir, useLower); h != nil {
		return h, 0
	}
	at, errno := t.storePath(dir, "")
	if errno != 0 {
		return nil, errno
	}
	open := func() (int, syscall.Errno) {
		return openBeneath(t.git.store, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	}
	fd, errno := open()
	if errno == syscall.ENOENT && makes {
		if errno = t.makeStored(at); errno == 0 {
			fd, errno = open()
		}
	}
	if errno != 0 {
		return nil, errno
	}
	return t.fds.add(dir, useLower, fd), 0
}

// storePath returns the path, from the store, of the directory that mirrors the entry called name of dir, or dir.
func (t *tree) storePath(dir *node, name string) (string, syscall.Errno) {
	at := t.table.path(dir, name)
	if len(at) >= unix.PathMax-len("/"+gitName) {
		return "", syscall.ENAMETOOLONG
	}
	return path.Clean(at), 0 // "." is the root
}

// makeStored makes the directory at the path at of the store, and those above it.
func (t *tree) makeStored(at string) syscall.Errno {
	for end := 1; end <= len(at); end++ {
		if end < len(at) && at[end] != '/' {
			continue
		}
		if err := unix.Mkdirat(t.git.store, at[:end], 0o700); err != nil && err != unix.EEXIST {
			return errnoOf(err)
		}
	}
	return 0
}

// storeHas reports whether the sandbox has a .git of its own in the entry called name of dir.
func (t *tree) storeHas(dir *node, name string) bool {
	at, errno := t.storePath(dir, name)
	if errno != 0 {
		return true
	}
	fd, errno := openBeneath(t.git.store, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return errno != syscall.ENOENT
	}
	defer unix.Close(fd)
	o, errno := t.stat(fdName{fd, gitName})
	return errno == 0 && !isWhiteout(o)
}

// left follows the removal of e, or its move to elsewhere: where the host has a .git, a whiteout says that the sandbox has none
// any more. The caller holds t.renameMu for writing.
func (t *tree) left(e *entry) {
	if !t.isApart(e.dir, e.name) {
		return
	}
	host, errno := t.halves(e.dir)
	if errno != 0 {
		return
	}
	defer host.release()
	if _, errno := t.stat(fdName{host.fd, gitName}); errno != 0 {
		return
	}
	if h, errno := t.stored(e.dir, true); errno == 0 {
		if errno := errnoOf(cow.MakeWhiteout(h.fd, gitName)); errno != 0 && errno != syscall.EEXIST {
			t.logger.Error("hide a removed .git", "of", t.table.path(e.dir, ""), "error", errno)
		}
		h.release()
	}
}

// dropStored removes the mirror of a directory that the sandbox has removed or is about to replace, at the path at: it has nothing but
// directories and whiteouts. The caller holds t.renameMu for writing.
func (t *tree) dropStored(at string) {
	t.git.temps++
	_ = unix.Renameat(t.git.store, at, t.git.work, "t"+strconv.FormatUint(t.git.temps, 36)) // the next start empties work
}

// moveStored follows a rename of directories: their mirrors move too. from and to are paths of the store. The caller holds
// t.renameMu for writing.
func (t *tree) moveStored(from, to string, swap bool) {
	has := func(at string) bool {
		_, errno := t.stat(fdName{t.git.store, at})
		return errno == 0
	}
	err := syscall.Errno(0)
	switch {
	case swap && has(from) && has(to):
		err = errnoOf(unix.Renameat2(t.git.store, from, t.git.store, to, unix.RENAME_EXCHANGE))
	case swap && has(to):
		from, to = to, from
		fallthrough
	case has(from):
		if !swap {
			t.dropStored(to)
		}
		if err = t.makeStored(path.Dir(to)); err == 0 {
			err = errnoOf(unix.Renameat(t.git.store, from, t.git.store, to))
		}
	case !swap:
		t.dropStored(to)
	}
	if err != 0 {
		t.logger.Error("move a private git directory", "from", from, "to", to, "error", err)
	}
}

// changedGit has GitHost.Changed called if the entry e, which was changed, is in a private git directory and no object.
func (t *tree) changedGit(e *entry) {
	if t.git == nil || !t.isPrivate(e.dir, e.name) {
		return
	}
	if !ofObjects(t.table.path(e.dir, e.name)) {
		t.git.host.Changed()
	}
}

// ofObjects reports whether a path in a private git directory is below its objects. A reference can have any name below
// refs.
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

// freshens reports whether in sets nothing but the times of n, an object of the host's, to the present: git inside does so when it
// needs an object that is there, and git on the host then does not prune it.
func (t *tree) freshens(n *node, in *fuse.SetAttrIn) bool {
	const times = fuse.FATTR_ATIME | fuse.FATTR_MTIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW
	if t.git == nil || !n.isRegular() || in.Valid&times != times || in.Valid&^(times|fuse.FATTR_FH|fuse.FATTR_LOCKOWNER) != 0 {
		return false
	}
	parent, _ := t.table.place(n)
	return parent != nil && parent.getState().path == inHosts && n.getLevel() == perm.Read
}

// changedFile is changedGit for a change of the content of n.
func (t *tree) changedFile(n *node) {
	if t.git == nil {
		return
	}
	if parent, name := t.table.place(n); parent != nil {
		e := newEntry(parent, name)
		t.changedGit(&e)
	}
}

// gitOffset is the offset behind the sandbox's own .git, which is listed first. No file system has it for an entry of its own.
const gitOffset = 1<<63 - 7

// listOwn lists the sandbox's own .git of dir, which is open as d. It reports whether there is room for more.
func (t *tree) listOwn(dir *node, d openDir, add func(*entry, openDir, fuse.DirEntry) bool) (bool, syscall.Errno) {
	if errno := t.pin(dir, d.fd); errno != 0 {
		return false, errno
	}
	h, errno := t.stored(dir, false)
	if errno == syscall.ENOENT {
		return true, 0
	}
	if errno != 0 {
		return false, errno
	}
	own := openDir{handle: h}
	defer own.release()
	o, _, errno := t.statEntry(own, gitName)
	if errno != 0 {
		return true, 0
	}
	e := newEntry(dir, gitName)
	return add(&e, own, fuse.DirEntry{Name: gitName, Mode: o.typ(), Ino: t.number(o), Off: gitOffset}), 0
}

// number returns the number to be presented for the inode of o: the store may be on another file system than the tree,
// whose numbers could be the same.
func (t *tree) number(o *object) uint64 {
	if t.git != nil && o.ident.dev != t.git.device {
		return o.Ino | apartBit
	}
	return o.Ino
}
