package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// unlink is tree.unlink for a copied tree. It leaves a whiteout if the host has the name.
func (u *upperLayer) unlink(d *openDir, name string, o *backing.Object, victim *node) syscall.Errno {
	if o.IsDir() {
		if errno := u.showsNothing(*d, name); errno != 0 {
			return errno
		}
	}
	own, errno := u.isOwn(*d, name)
	if errno != 0 {
		return errno
	}
	hides, errno := u.noteHost(*d, name)
	if errno != 0 {
		return errno
	}
	if victim != nil && !victim.isDir() && !own && d.node.merges() {
		victim.layers.setLowerPath(lowerPathOf(d.node, name))
	}
	switch {
	case own && !hides:
		errno = u.takeOut(d.fd, name, o.IsDir())
	case own:
		errno = u.cover(d.fd, name, o.IsDir())
	default:
		if errno = u.ensureUpper(d); errno == 0 {
			errno = u.whiteOut(d.fd, name)
		}
	}
	if errno == 0 && own {
		u.Quota.Removed(victim.file(), o)
	}
	return errno
}

// isOwn reports whether the entry called name of d is in the upper layer.
func (u *upperLayer) isOwn(d openDir, name string) (bool, syscall.Errno) {
	if !d.upper {
		return false, 0
	}
	_, errno := u.Stat(backing.At{FD: d.fd, Name: name})
	if errno == syscall.ENOENT {
		return false, 0
	}
	return errno == 0, errno
}

// noteHost records what the host has at the entry called name of d, and reports whether it has
// something. What is hidden from the sandbox counts.
func (u *upperLayer) noteHost(d openDir, name string) (bool, syscall.Errno) {
	fd := d.lowerFD()
	if fd < 0 {
		return false, 0
	}
	o, errno := u.Stat(backing.At{FD: fd, Name: name})
	switch errno {
	case 0:
		return true, u.note(lowerPathOf(d.node, name), o, func() (int, syscall.Errno) {
			return backing.OpenBeneath(fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		})
	case syscall.ENOENT:
		return false, 0
	}
	return false, errno
}

// whiteOut makes a whiteout called name in the upper directory fd, which has no such name.
func (u *upperLayer) whiteOut(fd int, name string) syscall.Errno {
	if errno := u.Quota.Reserve(backing.ObjectCost); errno != 0 {
		return errno
	}
	errno := backing.Errno(cow.MakeWhiteout(fd, name))
	if errno != 0 {
		u.Quota.Release(backing.ObjectCost)
	}
	return errno
}

// cover replaces the entry called name of the upper directory fd by a whiteout.
func (u *upperLayer) cover(fd int, name string, isDir bool) syscall.Errno {
	work, tmp := u.work, u.temp()
	if errno := u.whiteOut(work, tmp); errno != 0 {
		return errno
	}
	var errno syscall.Errno
	if !isDir {
		errno = backing.Errno(unix.Renameat(work, tmp, fd, name))
	} else if errno = u.MoveDir(backing.At{FD: fd, Name: name}, backing.At{FD: work, Name: tmp}, unix.RENAME_EXCHANGE); errno == 0 {
		u.destroy(tmp)
		return 0
	}
	if errno != 0 {
		u.removeWork(tmp, false)
		u.Quota.Release(backing.ObjectCost)
	}
	return errno
}

// takeOut removes the entry called name of the upper directory fd; of a directory, which shows
// nothing, also the whiteouts in it.
func (u *upperLayer) takeOut(fd int, name string, isDir bool) syscall.Errno {
	if !isDir {
		return backing.Errno(unix.Unlinkat(fd, name, 0))
	}
	tmp := u.temp()
	if errno := u.MoveDir(backing.At{FD: fd, Name: name}, backing.At{FD: u.work, Name: tmp}, unix.RENAME_NOREPLACE); errno != 0 {
		return errno
	}
	u.destroy(tmp)
	return 0
}

// destroy removes a directory with nothing but whiteouts from the work directory. What is left
// after a failure is removed at the next start.
func (u *upperLayer) destroy(name string) {
	fd, errno := backing.OpenBeneath(u.work, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return
	}
	defer unix.Close(fd)
	_ = u.AsOwner(fd, func() error {
		errno := u.EachName(fd, func(e string, _ uint32) syscall.Errno {
			errno := backing.Errno(unix.Unlinkat(fd, e, 0))
			if errno == 0 {
				u.Quota.Release(backing.ObjectCost)
			}
			return errno
		})
		if errno != 0 {
			return errno
		}
		return nil
	})
	u.removeWork(name, true)
}

// showsNothing returns ENOTEMPTY if the directory at the entry called name of d shows something in
// one of its layers, or would but for the rules.
func (u *upperLayer) showsNothing(d openDir, name string) syscall.Errno {
	gone := map[string]struct{}{}
	own, errno := u.isOwn(d, name)
	if errno != 0 {
		return errno
	}
	a, errno := u.locate(d, name)
	if errno != 0 {
		return errno
	}
	if own {
		fd, half, path, errno := u.OpenUpper(a)
		if errno != 0 {
			return errno
		}
		defer unix.Close(fd)
		if errno := u.Whiteouts(fd, gone); errno != 0 {
			return errno
		}
		if half == cow.Merged && d.node.merges() {
			half, path = cow.Moved, lowerPathOf(d.node, name)
		}
		if half != cow.Moved {
			return 0
		}
		a = backing.At{FD: u.lower.top.fd, Name: path}
	}
	lower, errno := backing.OpenBeneath(a.FD, a.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errno == 0:
	case own && (errno == syscall.ENOENT || errno == syscall.ENOTDIR || errno == syscall.ELOOP):
		return 0 // the host has none now
	default:
		return errno
	}
	defer unix.Close(lower)
	errno = u.EachName(lower, func(e string, _ uint32) syscall.Errno {
		if _, ok := gone[e]; ok {
			return 0
		}
		return syscall.ENOTEMPTY
	})
	if errno == syscall.ENOENT && own {
		return 0 // the host has removed it meanwhile: getdents(2)
	}
	return errno
}
