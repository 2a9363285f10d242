package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// unlink removes the object o, which is at the entry called name of d and whose node is victim, or nil.
// A copied tree leaves a whiteout if the host has the name. The caller holds t.renameMu for writing.
func (t *tree) unlink(d *openDir, name string, o *object, victim *node) syscall.Errno {
	if t.copied == nil {
		flags := 0
		if o.isDir() {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(d.fd, name, flags); err != nil {
			return errnoOf(err)
		}
		t.quota.removed(victim, o)
		return 0
	}
	if o.isDir() {
		if errno := t.showsNothing(*d, name); errno != 0 {
			return errno
		}
	}
	own, errno := t.isOwn(*d, name)
	if errno != 0 {
		return errno
	}
	hides, errno := t.noteHost(*d, name)
	if errno != 0 {
		return errno
	}
	if victim != nil && !victim.isDir() && !own && d.node.merges() {
		victim.layers.setLowerPath(lowerPathOf(d.node, name))
	}
	switch {
	case own && !hides:
		errno = t.takeOut(d.fd, name, o.isDir())
	case own:
		errno = t.cover(d.fd, name, o.isDir())
	default:
		if errno = t.ensureUpper(d); errno == 0 {
			errno = t.whiteOut(d.fd, name)
		}
	}
	if errno == 0 && own {
		t.quota.removed(victim, o)
	}
	return errno
}

// isOwn reports whether the entry called name of d is in the upper layer.
func (t *tree) isOwn(d openDir, name string) (bool, syscall.Errno) {
	if !d.upper {
		return false, 0
	}
	_, errno := t.stat(fdName{d.fd, name})
	if errno == syscall.ENOENT {
		return false, 0
	}
	return errno == 0, errno
}

// noteHost records what the host has at the entry called name of d, and reports whether it has something.
// What is hidden from the sandbox counts.
func (t *tree) noteHost(d openDir, name string) (bool, syscall.Errno) {
	fd := d.lowerFD()
	if fd < 0 {
		return false, 0
	}
	o, errno := t.stat(fdName{fd, name})
	switch errno {
	case 0:
		return true, t.copied.note(lowerPathOf(d.node, name), o, func() (int, syscall.Errno) {
			return openBeneath(fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		})
	case syscall.ENOENT:
		return false, 0
	}
	return false, errno
}

// whiteOut makes a whiteout called name in the upper directory fd, which has no such name.
func (t *tree) whiteOut(fd int, name string) syscall.Errno {
	if errno := t.quota.take(objectCost); errno != 0 {
		return errno
	}
	errno := errnoOf(cow.MakeWhiteout(fd, name))
	if errno != 0 {
		t.quota.give(objectCost)
	}
	return errno
}

// cover replaces the entry called name of the upper directory fd by a whiteout.
func (t *tree) cover(fd int, name string, isDir bool) syscall.Errno {
	work, tmp := t.copied.work, t.copied.temp()
	if errno := t.whiteOut(work, tmp); errno != 0 {
		return errno
	}
	var errno syscall.Errno
	if !isDir {
		errno = errnoOf(unix.Renameat(work, tmp, fd, name))
	} else if errno = t.moveDir(fdName{fd, name}, fdName{work, tmp}, unix.RENAME_EXCHANGE); errno == 0 {
		t.destroy(tmp)
		return 0
	}
	if errno != 0 {
		t.removeWork(tmp, false)
		t.quota.give(objectCost)
	}
	return errno
}

// takeOut removes the entry called name of the upper directory fd; of a directory, which shows nothing,
// also the whiteouts in it.
func (t *tree) takeOut(fd int, name string, isDir bool) syscall.Errno {
	if !isDir {
		return errnoOf(unix.Unlinkat(fd, name, 0))
	}
	tmp := t.copied.temp()
	if errno := t.moveDir(fdName{fd, name}, fdName{t.copied.work, tmp}, unix.RENAME_NOREPLACE); errno != 0 {
		return errno
	}
	t.destroy(tmp)
	return 0
}

// destroy removes a directory with nothing but whiteouts from the work directory. What is left after a
// failure is removed at the next start.
func (t *tree) destroy(name string) {
	fd, errno := openBeneath(t.copied.work, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return
	}
	defer unix.Close(fd)
	_ = t.asOwner(fd, func() error {
		errno := t.eachName(fd, func(e string, _ uint32) syscall.Errno {
			errno := errnoOf(unix.Unlinkat(fd, e, 0))
			if errno == 0 {
				t.quota.give(objectCost)
			}
			return errno
		})
		if errno != 0 {
			return errno
		}
		return nil
	})
	t.removeWork(name, true)
}

// showsNothing returns ENOTEMPTY if the directory at the entry called name of d shows something in one of
// its layers, or would but for the rules.
func (t *tree) showsNothing(d openDir, name string) syscall.Errno {
	gone := map[string]struct{}{}
	own, errno := t.isOwn(d, name)
	if errno != 0 {
		return errno
	}
	a, errno := t.locate(d, name)
	if errno != 0 {
		return errno
	}
	if own {
		fd, half, path, errno := t.openUpper(a)
		if errno != 0 {
			return errno
		}
		defer unix.Close(fd)
		if errno := t.whiteouts(fd, gone); errno != 0 {
			return errno
		}
		if half == cow.Merged && d.node.merges() {
			half, path = cow.Moved, lowerPathOf(d.node, name)
		}
		if half != cow.Moved {
			return 0
		}
		a = fdName{t.copied.lower.fd, path}
	}
	lower, errno := openBeneath(a.fd, a.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errno == 0:
	case own && (errno == syscall.ENOENT || errno == syscall.ENOTDIR || errno == syscall.ELOOP):
		return 0 // the host has none now
	default:
		return errno
	}
	defer unix.Close(lower)
	errno = t.eachName(lower, func(e string, _ uint32) syscall.Errno {
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
