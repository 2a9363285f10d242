package fusefs

import (
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// stored opens the directory of the store that mirrors dir, and with makes makes it. The caller
// holds p.renameMu.
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
	return backing.OpenBeneath(p.store, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// makeStored makes the directory at the path at of the store, and those above it.
func (p *privateGit) makeStored(at string) syscall.Errno {
	for end := 1; end <= len(at); end++ {
		if end < len(at) && at[end] != '/' {
			continue
		}
		if err := unix.Mkdirat(p.store, at[:end], 0o700); err != nil && err != unix.EEXIST {
			return backing.Errno(err)
		}
	}
	return 0
}

// storeHas returns whether the sandbox has a .git of its own, or a whiteout, in the directory that
// the path at of the store mirrors.
func (p *privateGit) storeHas(at string) (has, hidden bool) {
	fd, errno := p.openStored(at)
	if errno == syscall.ENOENT {
		return false, false
	}
	if errno != 0 {
		return true, false
	}
	defer unix.Close(fd)
	o, errno := p.Stat(backing.At{FD: fd, Name: gitName})
	hidden = errno == 0 && backing.IsWhiteout(o)
	return errno != syscall.ENOENT && !hidden, hidden
}

// lift removes the whiteout in the place of e, the sandbox's own .git, whose directory of the
// store is open as d, for a new .git. back restores the whiteout; the caller calls it if no .git
// was made. The caller holds p.renameMu for writing.
func (p *privateGit) lift(e *entry, d openDir) (back func()) {
	back = func() {}
	if p == nil || p.copied != nil || !p.levels.owns(e.dir.getState(), e.name) {
		return back
	}
	if o, errno := p.Stat(backing.At{FD: d.fd, Name: gitName}); errno != 0 || !backing.IsWhiteout(o) || unix.Unlinkat(d.fd, gitName, 0) != nil {
		return back
	}
	return func() {
		if err := cow.MakeWhiteout(d.fd, gitName); err != nil && err != unix.EEXIST { // it was made, and only the answer failed
			p.Logger.Error("hide a removed .git again", "of", p.table.path(e.dir, ""), "error", err)
		}
	}
}

// leaves prepares the removal of e, or its rename to another directory. Its place is open as d. If
// it is the sandbox's own .git of a directory in which the host has one, left, which is called
// afterwards, puts a whiteout there. The caller calls drop in the end, and holds p.renameMu for
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
	if _, errno := p.Stat(backing.At{FD: host.fd, Name: gitName}); errno == syscall.ENOENT {
		return nothing, nothing, 0
	}
	tmp := p.temp()
	if err := cow.MakeWhiteout(p.work, tmp); err != nil {
		return nil, nil, backing.Errno(err)
	}
	left = func() {
		if err := unix.Renameat2(p.work, tmp, d.fd, gitName, unix.RENAME_NOREPLACE); err != nil {
			p.Logger.Error("hide a removed .git", "of", p.table.path(e.dir, ""), "error", err)
		}
	}
	return left, func() { _ = unix.Unlinkat(p.work, tmp, 0) }, 0
}

// dropStored removes the mirror, at the path at, of a directory that the sandbox has removed or is
// about to replace. The sandbox has no .git there any more; what the host has removed below is out
// of reach, and is kept until the next start. The caller holds p.renameMu for writing.
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

// A mirrored is a rename of directories whose mirrors move too: paths of the store. The zero value
// means no rename.
type mirrored struct {
	from, to string
	swap     bool
}

// mirrors returns what of the store moves with r. It makes the directories above, so that little
// can fail when r is done. The caller holds p.renameMu for writing.
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
	_, errno := p.Stat(backing.At{FD: p.store, Name: at})
	return errno == 0
}

// moveStored moves mirrors, after the rename of directories, and what the host's half knows of
// their paths. The caller holds p.renameMu for writing.
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
		p.Logger.Error("move a private git directory", "from", from, "to", to, "error", err)
	}
	p.removedDirs.move(m.from, m.to, m.swap)
	if err := p.host.Moved(m.from, m.to, m.swap); err != nil {
		p.Logger.Error("follow a git directory of the host", "from", m.from, "to", m.to, "error", err)
	}
}
