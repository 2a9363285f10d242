package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// In a copied tree the sandbox's own .git is one of the upper layer, which shows nothing of the
// host's. It moves, and is deleted, discarded, copied and counted, as all else there.

// ownOnly reports whether of the entry called name of dir only what the upper layer has counts:
// the sandbox's own .git. dir may be nil.
func (t *tree) ownOnly(dir *node, name string) bool {
	return name == gitName && t.copied != nil && dir != nil && t.owns(dir.getState(), name)
}

// sides returns which halves of dir count for the entry called name: of a .git that is not the
// sandbox's own by the rules, only the host's.
func (t *tree) sides(dir *node, name string) (upper, lower bool) {
	if name != gitName || t.copied == nil || t.git == nil || dir == nil || dir.getState().path < 0 {
		return true, true
	}
	owns := t.owns(dir.getState(), name)
	return owns, !owns
}

// unpinned reports whether the host has a .git in the directory that is open as d, and the upper
// layer neither one nor a whiteout.
func (t *tree) unpinned(d openDir) bool {
	lower := d.lowerFD()
	if lower < 0 {
		return false
	}
	if d.upper {
		if _, errno := t.stat(fdName{d.fd, gitName}); errno != syscall.ENOENT {
			return false
		}
	}
	_, errno := t.stat(fdName{lower, gitName})
	return errno == 0
}

// notPinned returns the errno for the .git of dir, which is unpinned.
func (t *tree) notPinned(dir *node) syscall.Errno {
	at, errno := t.storePath(dir, "")
	if errno != 0 {
		return errno
	}
	t.git.mu.Lock()
	defer t.git.mu.Unlock()
	if f, failed := t.git.failed[at]; failed {
		return f.errno
	}
	return syscall.ESTALE // the host has just made it: the kernel looks the name up again
}

// ownGit has the .git of dir copied to the upper layer of a copied tree if name is that and it is
// unpinned. A failure is left to acquireEntry. changing says that the request holds t.changeMu, as
// all do t.rulesMu, which may change meanwhile if not. The caller does not hold t.renameMu.
func (t *tree) ownGit(dir *node, name string, changing bool) {
	if !t.ownOnly(dir, name) {
		return
	}
	d, is := t.openUnpinned(dir)
	if !is {
		return
	}
	d.release()
	if !changing { // it changes the upper layer
		t.rulesMu.RUnlock()
		t.changeMu.RLock()
		defer t.changeMu.RUnlock()
		t.rulesMu.RLock()
	}
	t.git.upper.Lock()
	defer t.git.upper.Unlock()
	if d, is = t.openUnpinned(dir); !is || !t.ownOnly(dir, name) {
		return
	}
	defer d.release()
	at, errno := t.storePath(dir, "")
	if errno != 0 {
		return
	}
	t.git.mu.Lock()
	errno = t.hasFailed(at)
	t.git.mu.Unlock()
	if errno != 0 {
		return
	}
	if err := t.pinUpper(dir, d.lowerFD(), at); err != nil {
		t.git.mu.Lock()
		defer t.git.mu.Unlock()
		t.pinFailed(at, err)
	}
}

// openUnpinned opens dir if its .git is unpinned.
func (t *tree) openUnpinned(dir *node) (d openDir, is bool) {
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	d, errno := t.acquireDir(dir)
	if errno != 0 {
		return d, false
	}
	if is = t.unpinned(d); !is {
		d.release()
	}
	return d, is
}

// pinUpper copies the .git of the host's directory that is open as lower to the upper half of dir,
// which is at the path at.
func (t *tree) pinUpper(dir *node, lower int, at string) error {
	fd, tmp, errno := t.makeWorkDir()
	if errno != 0 {
		return errno
	}
	defer func() {
		unix.Close(fd)
		if err := cow.RemoveWork(t.copied.work, tmp); err != nil {
			t.logger.Error("remove a temporary name", "error", err)
		}
	}()
	if err := t.git.host.Pin(lower, fd, at); err != nil {
		if _, gone := t.stat(fdName{lower, gitName}); gone == syscall.ENOENT {
			return nil // the host has removed it meanwhile
		}
		return err
	}
	if err := cow.MarkGit(fd); err != nil {
		return err
	}
	u, errno := t.usage(fd)
	if errno == 0 {
		errno = t.quota.take(u.Bytes)
	}
	if errno != 0 {
		return errno
	}
	placed, err := t.placeGit(dir, tmp)
	if !placed {
		t.quota.give(u.Bytes)
	}
	return err
}

// placeGit moves .git from the directory called tmp in the work directory to the upper half of
// dir, unless there is one by now.
func (t *tree) placeGit(dir *node, tmp string) (placed bool, err error) {
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	d, errno := t.acquireDir(dir)
	if errno != 0 {
		return false, nil // it is gone
	}
	defer func() { d.release() }()
	if !t.unpinned(d) {
		return false, nil
	}
	if errno := t.ensureUpper(&d); errno != 0 {
		return false, errno
	}
	if errno := t.putUpper(tmp+"/"+gitName, d.fd, gitName, false); errno != 0 {
		return false, errno
	}
	return true, nil
}
