package fusefs

import (
	"cmp"
	"strconv"
	"syscall"

	"wolffia/fusefs/backing"

	"golang.org/x/sys/unix"
)

// An openDir is a directory that is open for the use of names in it. Of a copied tree it has up to
// two halves.
type openDir struct {
	*handle         // the directory; its upper half if it has one
	lower   *handle // the lower half of a directory that has an upper half; else nil
	upper   bool    // handle is of the upper half
}

func (d openDir) release() {
	d.handle.release()
	if d.lower != nil {
		d.lower.release()
	}
}

// lowerFD returns a descriptor of the host's half, -1 if the host has none.
func (d openDir) lowerFD() int {
	switch {
	case !d.upper:
		return d.fd
	case d.lower != nil:
		return d.lower.fd
	}
	return -1
}

// halves opens the directory n. The caller holds ns.renameMu, and releases the result.
func (ns *names) halves(n *node) (openDir, syscall.Errno) {
	h, errno := ns.acquireLocked(n, usePath)
	d := openDir{handle: h, upper: n.inUpper()}
	if errno == 0 && d.upper && n.merges() {
		if d.lower, errno = ns.lower.half(n); errno == syscall.ENOENT {
			errno = 0 // the host has none now
		}
		if errno != 0 {
			h.release()
		}
	}
	return d, errno
}

// locate returns where the entry called name of d is, without following a link. ENOENT: it does not
// exist, or was deleted in a copied tree; in a direct one locate does not look.
func (ns *names) locate(d openDir, name string) (backing.At, syscall.Errno) {
	if ns.copied == nil {
		return backing.At{FD: d.fd, Name: name}, 0
	}
	_, a, errno := ns.statEntry(d, name)
	return a, errno
}

// statEntry returns the entry called name of d, and where it is.
func (ns *names) statEntry(d openDir, name string) (*backing.Object, backing.At, syscall.Errno) {
	a := backing.At{FD: d.fd, Name: name}
	upper, lower := ns.git.sides(d.node, name)
	if !d.upper && !lower {
		return nil, a, syscall.ENOENT
	}
	var o *backing.Object
	errno := syscall.ENOENT
	if upper || !d.upper {
		o, errno = ns.Stat(a)
	}
	if errno == 0 && ns.git != nil && (name == gitName && backing.IsWhiteout(o) || ns.git.isRemovedDir(d.fd, d.node, name)) {
		return nil, a, syscall.ENOENT
	}
	if !d.upper || errno != 0 && errno != syscall.ENOENT {
		return o, a, errno
	}
	switch {
	case errno == 0 && backing.IsWhiteout(o):
		return nil, a, syscall.ENOENT
	case errno == 0:
		return o, a, 0
	case d.lower == nil || !lower:
		return nil, a, errno
	}
	a.FD = d.lower.fd
	o, errno = ns.Stat(a)
	return o, a, errno
}

// exists reports whether d may have an entry called name, also one that the sandbox has removed.
func (ns *names) exists(d openDir, name string) bool {
	if !d.upper {
		_, errno := ns.Stat(backing.At{FD: d.fd, Name: name})
		return errno != syscall.ENOENT
	}
	_, _, errno := ns.statEntry(d, name)
	return errno != syscall.ENOENT
}

// dirOf opens the directory that has the entry called name of dir: for the sandbox's own .git its
// place in the store, for a shown git directory of the host that directory, else dir itself.
// ENOENT: the place does not exist. The caller holds ns.renameMu, and releases the result.
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
		return openDir{}, backing.Errno(err)
	}
	return openDir{handle: ns.fds.add(dir, useLower, fd)}, 0
}

// acquireEntry is acquireDir for the directory that has the entry e: see dirOf. The sandbox's own
// .git is copied if it was not yet. With makes, for a name that is about to be made, that
// directory is made too.
func (ns *names) acquireEntry(e *entry, makes bool) (openDir, syscall.Errno) {
	d, errno := ns.acquireDir(e.dir)
	if errno != 0 || ns.git == nil {
		return d, errno
	}
	s := e.dir.getState()
	switch {
	case ns.git.ownOnly(e.dir, e.name):
		if ns.git.lacksCopy(d) {
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
