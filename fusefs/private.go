package fusefs

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// gitName is the name of a git directory in a working tree, or of the file that leads to one.
const gitName = ".git"

// A Git has a tree keep each name .git of its own: the host's is never opened through the tree.
// The sandbox's .git of the directory P is Store/P/.git, and in a copied tree that of the upper
// layer. It is made when it is first looked for, by a copy of what the host has, and may be
// changed in any way. This is so where the rules let .git be written; elsewhere the host's own is
// served by the rules.
type Git struct {
	// Store is a descriptor of the directory that mirrors those directories of the tree that have,
	// or had, a .git, of no use in a copied tree; and Work of an empty one on the same file
	// system, for temporary names. Nothing else writes to them while the tree is served. O_PATH is
	// enough. Serve duplicates both.
	Store, Work int

	Host GitHost

	// Monitor makes the tree git's file system monitor: see AskName.
	Monitor bool
	// Minimal tells that git inside ignores owners, inode numbers and times of attributes: core.checkStat=minimal.
	Minimal bool
}

// A GitHost is the host's half of private git directories. Its methods are safe for concurrent use.
type GitHost interface {
	// Pin makes the entry .git of the directory store: a copy of the one in the directory dir, which the host has at the
	// path from the root of the tree; all of it at once, or nothing. dir and store may be open with O_PATH.
	Pin(dir, store int, path string) error
	// Objects returns a descriptor of git directory number n of the host, whose objects the sandbox may read; it
	// stays the GitHost's. ok is false if there is no such number.
	Objects(n int) (fd int, ok bool)
	// Moved is called after the directory at the path from of the tree, in which the host may have git directories, was
	// renamed to to, or with swap both were exchanged.
	Moved(from, to string, swap bool) error
	// Changed is called after a change in a private git directory that may be one of a reference, the index or HEAD.
	Changed()
}

// HostsName is the name of the directory that each directory in a private git directory has, without listing it, for what the
// host has: its entry N shows objects and lfs of the directory that GitHost.Objects returns for N.
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
	gone        gone

	monitor gitMonitor

	upper  sync.Mutex // held while a .git is pinned to an upper layer; taken before names.renameMu
	mu     sync.Mutex // held while a .git is pinned to the store
	failed pinFailures
}

// newPrivateGit opens what g names. root is the root of the tree.
func newPrivateGit(ns *names, g *Git, root *object) (p *privateGit, err error) {
	p = &privateGit{names: ns, store: -1, work: -1, host: g.Host, device: root.ident.dev}
	p.failed = pinFailures{names: ns, last: map[string]pinFailed{}}
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
		fd, errno := openBeneath(*d.from, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
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
func (p *privateGit) rest() {
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

// owns reports whether the entry called name of a directory with the states s is the sandbox's own .git.
func (lv *levels) owns(s states, name string) bool {
	return name == gitName && lv.private && s.path >= 0 && s.lower != inHostGit &&
		lv.rules.Child(s.path, gitName, true) == perm.Write && lv.rules.Child(s.path, gitName, false) == perm.Write
}

// isApart reports whether the entry called name of dir is not in the directory that dir is: see dirOf.
func (p *privateGit) isApart(dir *node, name string) bool {
	if p == nil {
		return false
	}
	s := dir.getState()
	return p.copied == nil && p.levels.owns(s, name) || s.path == inPrivate && name == HostsName && !dir.merges() ||
		s.path == inHosts && p.hostNumber(dir, name) >= 0
}

// hostNumber returns the number of the host's git directory whose entry the one called name of dir shows; -1: of none.
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

// dirOf opens the directory that has the entry called name of dir: for the sandbox's own .git its place in the store, for
// what is shown of the host that directory, else dir itself. ENOENT: there is no such place. The caller holds
// ns.renameMu, and releases the result.
func (ns *names) dirOf(dir *node, name string) (openDir, syscall.Errno) {
	switch {
	case !ns.git.isApart(dir, name):
		return ns.halves(dir)
	case name == gitName:
		h, errno := ns.git.stored(dir, false)
		return openDir{handle: h}, errno
	}
	if h := ns.fds.cached(dir, useLower); h != nil {
		return openDir{handle: h}, 0
	}
	from := ns.git.work
	if name != HostsName {
		var ok bool
		if from, ok = ns.git.host.Objects(ns.git.hostNumber(dir, name)); !ok {
			return openDir{}, syscall.ENOENT
		}
	}
	fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return openDir{}, errnoOf(err)
	}
	return openDir{handle: ns.fds.add(dir, useLower, fd)}, 0
}

// acquireEntry is acquireDir for the directory that has the entry e: see dirOf. The sandbox's own .git is pinned
// if it was not yet. With makes, for a name that is about to be made, that directory is made too.
func (ns *names) acquireEntry(e *entry, makes bool) (openDir, syscall.Errno) {
	d, errno := ns.acquireDir(e.dir)
	if errno != 0 || ns.git == nil {
		return d, errno
	}
	s := e.dir.getState()
	switch {
	case ns.git.ownOnly(e.dir, e.name):
		if ns.git.unpinned(d) {
			d.release()
			return openDir{}, cmp.Or(ns.git.failed.of(e.dir).errno, syscall.ESTALE) // ESTALE: the host has just made it
		}
	case ns.levels.owns(s, e.name):
		defer d.release()
		h, errno := ns.git.ownDir(e.dir, d.fd, makes)
		return openDir{handle: h}, errno
	case ns.git.isApart(e.dir, e.name):
		defer d.release()
		return ns.dirOf(e.dir, e.name)
	case s.path == inHosts && ns.git.showsHosts(e.dir):
		if n, err := strconv.Atoi(e.name); err == nil && strconv.Itoa(n) == e.name {
			if _, ok := ns.git.host.Objects(n); ok {
				_ = unix.Mkdirat(d.fd, e.name, 0o755) // EEXIST, but the first time
			}
		}
	}
	return d, 0
}

// ownDir opens the directory of the store that has the sandbox's .git of dir, which is open as fd, or a whiteout, once the
// host's was pinned. ENOENT: both have none; with makes that directory is made. The caller holds p.renameMu.
func (p *privateGit) ownDir(dir *node, fd int, makes bool) (*handle, syscall.Errno) {
	if h, errno := p.pinned(dir); h != nil || errno != 0 {
		return h, errno
	}
	switch o, errno := p.stat(fdName{fd, gitName}); {
	case errno == syscall.ENOENT:
		return p.stored(dir, makes)
	case errno != 0:
		return nil, errno
	case o.isMount():
		return nil, syscall.EACCES // as find
	}
	if errno := p.pin(dir, fd); errno != 0 {
		return nil, errno
	}
	return p.stored(dir, false)
}

// pinned opens the directory of the store that mirrors dir; nil, 0: that has neither a .git nor a whiteout.
func (p *privateGit) pinned(dir *node) (*handle, syscall.Errno) {
	h, errno := p.stored(dir, false)
	if errno == syscall.ENOENT {
		return nil, 0
	}
	if errno != 0 {
		return nil, errno
	}
	if _, errno = p.stat(fdName{h.fd, gitName}); errno != 0 {
		h.release()
		h = nil
	}
	if errno == syscall.ENOENT {
		errno = 0
	}
	return h, errno
}

// pin has the host's .git of dir, which is open as fd, copied to the store. What the host has is never shown in its place: EACCES is
// the answer, with a denial that says why, until it can be copied; or one of passing. The caller holds p.renameMu.
func (p *privateGit) pin(dir *node, fd int) syscall.Errno {
	at, errno := p.storePath(dir, "")
	if errno != 0 {
		return errno
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, errno := p.pinned(dir); h != nil {
		h.release()
		return 0
	} else if errno != 0 {
		return errno
	}
	if errno := p.failed.recently(at); errno != 0 {
		return errno
	}
	h, errno := p.stored(dir, true)
	if errno != 0 {
		return errno
	}
	defer h.release()
	err := p.host.Pin(fd, h.fd, at)
	if err == nil {
		p.monitor.lookAhead(dir)
		return 0
	}
	if _, errno := p.stat(fdName{fd, gitName}); errno == syscall.ENOENT {
		return errno // the host has removed it meanwhile
	}
	return p.failed.add(at, err)
}

// stored opens the directory of the store that mirrors dir, and with makes makes it. The caller holds p.renameMu.
func (p *privateGit) stored(dir *node, makes bool) (*handle, syscall.Errno) {
	if h := p.fds.cached(dir, useLower); h != nil {
		return h, 0
	}
	at, errno := p.storePath(dir, "")
	if errno != 0 {
		return nil, errno
	}
	fd, errno := p.openStored(at)
	if errno == syscall.ENOENT && makes {
		if errno = p.makeStored(at); errno == 0 {
			fd, errno = p.openStored(at)
		}
	}
	if errno != 0 {
		return nil, errno
	}
	return p.fds.add(dir, useLower, fd), 0
}

// storePath returns the path, from the store, of what mirrors the entry called name of dir, or dir.
func (p *privateGit) storePath(dir *node, name string) (string, syscall.Errno) {
	at, whole := p.table.wholePath(dir, name)
	if !whole || len(at) >= unix.PathMax-len("/"+gitName) {
		return "", syscall.ENAMETOOLONG
	}
	return path.Clean(at), 0 // "." is the root
}

// openStored opens the directory at the path at of the store.
func (p *privateGit) openStored(at string) (int, syscall.Errno) {
	return openBeneath(p.store, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// makeStored makes the directory at the path at of the store, and those above it.
func (p *privateGit) makeStored(at string) syscall.Errno {
	for end := 1; end <= len(at); end++ {
		if end < len(at) && at[end] != '/' {
			continue
		}
		if err := unix.Mkdirat(p.store, at[:end], 0o700); err != nil && err != unix.EEXIST {
			return errnoOf(err)
		}
	}
	return 0
}

// storeHas returns whether the sandbox has a .git of its own, or a whiteout, in the directory that the path at of the store mirrors.
func (p *privateGit) storeHas(at string) (has, hidden bool) {
	fd, errno := p.openStored(at)
	if errno == syscall.ENOENT {
		return false, false
	}
	if errno != 0 {
		return true, false
	}
	defer unix.Close(fd)
	o, errno := p.stat(fdName{fd, gitName})
	hidden = errno == 0 && isWhiteout(o)
	return errno != syscall.ENOENT && !hidden, hidden
}

// lift takes away the whiteout in the place of e, the sandbox's own .git, whose directory of the store is open as d, for a new
// one. back, which is called if none was made, puts it back. The caller holds p.renameMu for writing.
func (p *privateGit) lift(e *entry, d openDir) (back func()) {
	back = func() {}
	if p == nil || p.copied != nil || !p.levels.owns(e.dir.getState(), e.name) {
		return back
	}
	if o, errno := p.stat(fdName{d.fd, gitName}); errno != 0 || !isWhiteout(o) || unix.Unlinkat(d.fd, gitName, 0) != nil {
		return back
	}
	return func() {
		if err := cow.MakeWhiteout(d.fd, gitName); err != nil && err != unix.EEXIST { // it was made, and only the answer failed
			p.logger.Error("hide a removed .git again", "of", p.table.path(e.dir, ""), "error", err)
		}
	}
}

// leaves makes ready that e goes, or moves elsewhere. Its place is open as d. If it is the sandbox's own .git of a directory in which
// the host has one, left, which is called afterwards, puts a whiteout there. The caller calls drop in the end, and holds p.renameMu for
// writing until then.
func (p *privateGit) leaves(e *entry, d openDir) (left, drop func(), errno syscall.Errno) {
	nothing := func() {}
	if p == nil || p.copied != nil || !p.levels.owns(e.dir.getState(), e.name) {
		return nothing, nothing, 0
	}
	host, errno := p.halves(e.dir)
	if errno != 0 {
		return nil, nil, errno
	}
	defer host.release()
	if _, errno := p.stat(fdName{host.fd, gitName}); errno == syscall.ENOENT {
		return nothing, nothing, 0
	}
	tmp := p.temp()
	if err := cow.MakeWhiteout(p.work, tmp); err != nil {
		return nil, nil, errnoOf(err)
	}
	left = func() {
		if err := unix.Renameat2(p.work, tmp, d.fd, gitName, unix.RENAME_NOREPLACE); err != nil {
			p.logger.Error("hide a removed .git", "of", p.table.path(e.dir, ""), "error", err)
		}
	}
	return left, func() { _ = unix.Unlinkat(p.work, tmp, 0) }, 0
}

// dropStored removes the mirror, at the path at, of a directory that the sandbox has removed or is about to replace. The sandbox has no .git
// there any more; what the host has removed below is out of reach, and is kept until the next start. The caller holds p.renameMu
// for writing.
func (p *privateGit) dropStored(at string) {
	fd, errno := p.openStored(at)
	if errno != 0 {
		return
	}
	defer unix.Close(fd)
	if _, hidden := p.storeHas(at); hidden {
		_ = unix.Unlinkat(fd, gitName, 0)
	}
	if unix.Unlinkat(p.store, at, unix.AT_REMOVEDIR) != nil {
		_ = unix.Renameat(p.store, at, p.work, p.temp())
	}
}

// mirrored reports whether private git directories are in the store, and not in an upper layer.
func (p *privateGit) mirrored() bool { return p != nil && p.copied == nil }

// A mirrored is a rename of directories whose mirrors move too: paths of the store. The zero value is none.
type mirrored struct {
	from, to string
	swap     bool
}

// mirrors returns what of the store moves with r. It makes the directories above, so that little can fail
// when r is done. The caller holds p.renameMu for writing.
func (p *privateGit) mirrors(r *renaming) (m mirrored, errno syscall.Errno) {
	if !p.mirrored() || !r.movesDir() || r.from.dir.getState().path < 0 || r.from.name == gitName {
		return m, 0
	}
	if m.from, errno = p.storePath(r.from.dir, r.from.name); errno != 0 {
		return mirrored{}, errno
	}
	if m.to, errno = p.storePath(r.to.dir, r.to.name); errno != 0 {
		return mirrored{}, errno
	}
	if has, _ := p.storeHas(m.to); has && !r.swap && r.dst != nil {
		return mirrored{}, syscall.ENOTEMPTY
	}
	m.swap = r.swap
	if p.mirrorAt(m.from) {
		errno = p.makeStored(path.Dir(m.to))
	}
	if errno == 0 && m.swap && p.mirrorAt(m.to) {
		errno = p.makeStored(path.Dir(m.from))
	}
	return m, errno
}

// mirrorAt reports whether the store has something at the path at.
func (p *privateGit) mirrorAt(at string) bool {
	_, errno := p.stat(fdName{p.store, at})
	return errno == 0
}

// moveStored moves mirrors, after the rename of directories, and what the host's half knows of their paths. The caller holds p.renameMu
// for writing.
func (p *privateGit) moveStored(m mirrored) {
	if m.from == "" {
		return
	}
	from, to := m.from, m.to
	if m.swap && !p.mirrorAt(from) {
		from, to = to, from
	}
	var err error
	switch {
	case m.swap && p.mirrorAt(to) && p.mirrorAt(from):
		err = unix.Renameat2(p.store, from, p.store, to, unix.RENAME_EXCHANGE)
	case !m.swap:
		p.dropStored(to)
		fallthrough
	default:
		if p.mirrorAt(from) {
			err = unix.Renameat2(p.store, from, p.store, to, unix.RENAME_NOREPLACE)
		}
	}
	if err != nil {
		p.logger.Error("move a private git directory", "from", from, "to", to, "error", err)
	}
	p.gone.move(m.from, m.to, m.swap)
	if err := p.host.Moved(m.from, m.to, m.swap); err != nil {
		p.logger.Error("follow a git directory of the host", "from", m.from, "to", m.to, "error", err)
	}
}

// changedGit has GitHost.Changed called if the entry e, which was changed, is in a private git directory and no object.
func (p *privateGit) changedGit(e *entry) {
	if p != nil && (e.dir.private() || p.levels.owns(e.dir.getState(), e.name)) && !ofObjects(p.table.path(e.dir, e.name)) {
		p.host.Changed()
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

// freshens reports whether in sets nothing but the times of n, an object of the host's, to the
// present: git inside does so when it needs an object that is there, and git on the host then does
// not prune it. In a copied tree, which changes nothing on the host, it then makes one of its own.
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

// showsObjects reports whether n is a directory of what is shown of the host in which git there
// makes objects or packs: git inside lists it again when it lacks an object, and the kernel keeps a
// listing as long as it has the attributes.
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

// gitOffset is the offset behind the sandbox's own .git, which is listed first. No file system has it for an entry of its own.
const gitOffset = 1<<63 - 7

// listOwn lists the sandbox's own .git of dir, which is open as d. It reports whether there is room for more.
func (p *privateGit) listOwn(dir *node, d openDir, add func(*entry, openDir, fuse.DirEntry) bool) bool {
	h, errno := p.ownDir(dir, d.fd, false)
	if errno != 0 {
		return true // there is none, or a lookup returns why
	}
	own := openDir{handle: h}
	defer own.release()
	o, _, errno := p.statEntry(own, gitName)
	if errno != 0 {
		return true
	}
	e := newEntry(dir, gitName)
	return add(&e, own, fuse.DirEntry{Name: gitName, Mode: o.typ(), Ino: p.number(o), Off: gitOffset})
}

// number returns the number to be presented for the inode of o: the store may be on another file system than the tree,
// whose numbers could be the same.
func (p *privateGit) number(o *object) uint64 {
	if p != nil && o.ident.dev != p.device {
		return o.Ino | apartBit
	}
	return o.Ino
}
