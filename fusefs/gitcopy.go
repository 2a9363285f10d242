package fusefs

import (
	"syscall"

	"wolffia/fusefs/backing"
)

// ownDir opens the directory of the store that has the sandbox's .git of dir, which is open as fd,
// or a whiteout. It copies the host's .git first if the store has neither. If the host has no .git
// either, ownDir makes the directory if makes is set, else it returns ENOENT. The caller holds
// p.renameMu.
func (p *privateGit) ownDir(dir *node, fd int, makes bool) (*handle, syscall.Errno) {
	if h, errno := p.storedCopy(dir); h != nil || errno != 0 {
		return h, errno
	}
	switch o, errno := p.Stat(backing.At{FD: fd, Name: gitName}); {
	case errno == syscall.ENOENT:
		return p.stored(dir, makes)
	case errno != 0:
		return nil, errno
	case o.IsMount():
		return nil, syscall.EACCES // as find
	}
	if errno := p.copyGitDir(dir, fd); errno != 0 {
		return nil, errno
	}
	return p.stored(dir, false)
}

// storedCopy opens the directory of the store that mirrors dir. It returns nil and 0 if that
// directory has neither a .git nor a whiteout.
func (p *privateGit) storedCopy(dir *node) (*handle, syscall.Errno) {
	h, errno := p.stored(dir, false)
	if errno == syscall.ENOENT {
		return nil, 0
	}
	if errno != 0 {
		return nil, errno
	}
	if _, errno = p.Stat(backing.At{FD: h.fd, Name: gitName}); errno != 0 {
		h.release()
		h = nil
	}
	if errno == syscall.ENOENT {
		errno = 0
	}
	return h, errno
}

// copyGitDir copies the host's .git of dir, which is open as fd, to the store. The tree never
// shows the host's .git in its place: until the copy succeeds, copyGitDir returns EACCES, with a
// denial that has the reason, or an errno of passing. The caller holds p.renameMu.
func (p *privateGit) copyGitDir(dir *node, fd int) syscall.Errno {
	at, errno := p.storePath(dir, "")
	if errno != 0 {
		return errno
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, errno := p.storedCopy(dir); h != nil {
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
	err := p.host.CopyGitDir(fd, h.fd, at)
	if err == nil {
		p.monitor.lookAhead(dir)
		return 0
	}
	if _, errno := p.Stat(backing.At{FD: fd, Name: gitName}); errno == syscall.ENOENT {
		return errno // the host has removed it meanwhile
	}
	return p.failed.add(at, err)
}
