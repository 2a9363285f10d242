package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// In a copied tree the sandbox's own .git is in the upper layer, and shows nothing of the
// host's. It is moved, deleted, discarded, copied and counted as all other entries there.

// ownOnly reports whether only the upper layer decides about the entry called name of dir, as
// for the sandbox's own .git. dir may be nil.
func (p *privateGit) ownOnly(dir *node, name string) bool {
	return p != nil && name == gitName && p.copied != nil && dir != nil && p.levels.owns(dir.getState(), name)
}

// sides returns which halves of dir decide about the entry called name. For a .git that is not the
// sandbox's own by the rules, that is the host's half.
func (p *privateGit) sides(dir *node, name string) (upper, lower bool) {
	if p == nil || name != gitName || p.copied == nil || dir == nil || dir.getState().path < 0 {
		return true, true
	}
	owns := p.levels.owns(dir.getState(), name)
	return owns, !owns
}

// lacksCopy reports whether the host has a .git in the directory that is open as d, and the upper
// layer has neither a .git nor a whiteout there.
func (p *privateGit) lacksCopy(d openDir) bool {
	lower := d.lowerFD()
	if lower < 0 {
		return false
	}
	if d.upper {
		if _, errno := p.Stat(backing.At{FD: d.fd, Name: gitName}); errno != syscall.ENOENT {
			return false
		}
	}
	_, errno := p.Stat(backing.At{FD: lower, Name: gitName})
	return errno == 0
}

// ownGit copies the .git of dir to the upper layer of a copied tree if name is .git and dir lacks
// a copy. acquireEntry reports a failure. changing says that the request holds p.changeMu. All
// requests hold p.levels.rulesMu; without changing, ownGit releases it for a while. The caller
// does not hold p.renameMu.
func (p *privateGit) ownGit(dir *node, name string, changing bool) {
	if !p.ownOnly(dir, name) {
		return
	}
	d, is := p.openLackingCopy(dir)
	if !is {
		return
	}
	d.release()
	if !changing { // the copy changes the upper layer
		p.levels.rulesMu.RUnlock()
		p.changeMu.RLock()
		defer p.changeMu.RUnlock()
		p.levels.rulesMu.RLock()
	}
	p.upper.Lock()
	defer p.upper.Unlock()
	if d, is = p.openLackingCopy(dir); !is || !p.ownOnly(dir, name) {
		return
	}
	defer d.release()
	at, errno := p.storePath(dir, "")
	if errno != 0 {
		return
	}
	if p.failed.recently(at) != 0 {
		return
	}
	if err := p.copyGitDirUpper(dir, d.lowerFD(), at); err != nil {
		p.failed.add(at, err)
	}
}

// openLackingCopy opens dir if it lacks a copy of its .git.
func (p *privateGit) openLackingCopy(dir *node) (d openDir, is bool) {
	p.renameMu.RLock()
	defer p.renameMu.RUnlock()
	d, errno := p.acquireDir(dir)
	if errno != 0 {
		return d, false
	}
	if is = p.lacksCopy(d); !is {
		d.release()
	}
	return d, is
}

// copyGitDirUpper copies the .git of the host's directory that is open as lower to the upper half
// of dir, which is at the path at.
func (p *privateGit) copyGitDirUpper(dir *node, lower int, at string) error {
	fd, tmp, errno := p.copied.makeWorkDir()
	if errno != 0 {
		return errno
	}
	defer func() {
		unix.Close(fd)
		if err := cow.RemoveWork(p.copied.work, tmp); err != nil {
			p.Logger.Error("remove a temporary name", "error", err)
		}
	}()
	if err := p.host.CopyGitDir(lower, fd, at); err != nil {
		if _, gone := p.Stat(backing.At{FD: lower, Name: gitName}); gone == syscall.ENOENT {
			return nil // the host has removed it meanwhile
		}
		return err
	}
	if err := cow.MarkGit(fd); err != nil {
		return err
	}
	u, errno := p.Count(fd)
	if errno == 0 {
		errno = p.Quota.Reserve(u.Bytes)
	}
	if errno != 0 {
		return errno
	}
	placed, err := p.placeGit(dir, tmp)
	if !placed {
		p.Quota.Release(u.Bytes)
	}
	return err
}

// placeGit moves .git from the directory called tmp in the work directory to the upper half of
// dir, unless the upper half has a .git by now.
func (p *privateGit) placeGit(dir *node, tmp string) (placed bool, err error) {
	p.renameMu.Lock()
	defer p.renameMu.Unlock()
	d, errno := p.acquireDir(dir)
	if errno != 0 {
		return false, nil // dir was removed
	}
	defer func() { d.release() }()
	if !p.lacksCopy(d) {
		return false, nil
	}
	if errno := p.copied.ensureUpper(&d); errno != 0 {
		return false, errno
	}
	if errno := p.copied.putUpper(tmp+"/"+gitName, d.fd, gitName, false); errno != 0 {
		return false, errno
	}
	return true, nil
}
