package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// What is shown of the host in a private git directory (HostsName) cannot be changed, but the git directory can be removed
// as a whole, as rm -r does it: from below. So a removal there succeeds and does nothing, until the directory
// with the number is removed: then that is not shown any more.

// removesShown reports whether e is in what is shown of the host, or the directory with all that is shown in a private git
// directory.
func (t *tree) removesShown(e *entry, isDir bool) bool {
	return t.git != nil && (e.dir.getState().path == inHosts || isDir && e.dir.private() && e.name == HostsName)
}

// removeShown removes such an entry.
func (t *tree) removeShown(e *entry, isDir bool) syscall.Errno {
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	_, above := t.table.place(e.dir)
	own := e.dir.private() // then e is the directory HostsName
	if !own && above != HostsName {
		return 0
	}
	if !isDir {
		return syscall.EISDIR
	}
	d, errno := t.acquireDir(e.dir)
	if errno != 0 {
		return errno
	}
	defer d.release()
	if !own {
		fd, errno := openBeneath(d.fd, e.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errno != 0 {
			return errno
		}
		for _, name := range shownOfHost {
			_ = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) // empty in the store
		}
		unix.Close(fd)
	}
	victim := t.openVictim(e)
	if err := unix.Unlinkat(d.fd, e.name, unix.AT_REMOVEDIR); err != nil {
		return errnoOf(err)
	}
	if t.table.vanish(e.dir, e.name, victim) {
		t.pinOrphan(victim)
	}
	return 0
}
