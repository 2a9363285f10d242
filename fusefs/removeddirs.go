package fusefs

import (
	"errors"
	"path"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// The sandbox can remove a directory in which the host has a .git that the sandbox does not see:
// the sandbox removes its own .git, and all other entries. The host keeps the directory and its
// .git until wolffia, or the user, removes them. To the sandbox the directory does not exist. A
// whiteout in the store has its name.

// A removedDirs holds the paths of such directories. Its methods are safe for concurrent use; the
// zero value holds none.
type removedDirs struct {
	mu    sync.RWMutex
	paths map[string]struct{} // guarded by mu
}

// loadRemovedDirs reads the whiteouts in the directory of the store that is open as dir, at the
// path at of the tree.
func (p *privateGit) loadRemovedDirs(dir int, at string) syscall.Errno {
	return p.EachName(dir, func(name string, typ uint32) syscall.Errno {
		switch {
		case name == gitName:
		case typ == unix.S_IFCHR:
			p.removedDirs.add(path.Join(at, name))
		case typ == unix.S_IFDIR:
			return backing.InDir(dir, name, func(fd int) syscall.Errno {
				return p.loadRemovedDirs(fd, path.Join(at, name))
			})
		}
		return 0
	})
}

func (g *removedDirs) add(at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paths == nil {
		g.paths = map[string]struct{}{}
	}
	g.paths[at] = struct{}{}
}

func (g *removedDirs) remove(at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.paths, at)
}

// any reports whether any directory is removed: the host then has files that the sandbox has
// removed.
func (g *removedDirs) any() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.paths) > 0
}

// has reports whether the directory at path() was removed by the sandbox. It calls path only if
// any directory was.
func (g *removedDirs) has(path func() string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if len(g.paths) == 0 {
		return false
	}
	_, is := g.paths[path()]
	return is
}

// move follows a rename of the directory at from to to, or with swap their exchange.
func (g *removedDirs) move(from, to string, swap bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.paths) == 0 {
		return
	}
	moved := make(map[string]struct{}, len(g.paths))
	for at := range g.paths {
		if rest, below := strings.CutPrefix(at, from+"/"); below {
			at = path.Join(to, rest)
		} else if rest, below := strings.CutPrefix(at, to+"/"); below && swap {
			at = path.Join(from, rest)
		}
		moved[at] = struct{}{}
	}
	g.paths = moved
}

// isRemovedDir reports whether the sandbox has removed the directory called name of dir, which is
// open as fd, and the host still has it. It returns false if the host has another object there by
// now.
func (p *privateGit) isRemovedDir(fd int, dir *node, name string) bool {
	if p == nil || dir == nil || !p.removedDirs.has(func() string { return p.table.path(dir, name) }) {
		return false
	}
	at, errno := p.storePath(dir, name)
	if errno != 0 || p.leftOver(fd, name, at) == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Unlinkat(p.store, at, 0) // ENOENT: another request has removed it
	p.removedDirs.remove(at)
	return false
}

// leftOver checks what the directory called name of the host's directory fd, at the path at,
// contains. It returns 0 if it has only a .git and directories that the sandbox has removed,
// ENOTEMPTY if it has more, or the errno of opening it.
func (p *privateGit) leftOver(fd int, name, at string) syscall.Errno {
	return backing.InDir(fd, name, func(dir int) syscall.Errno {
		return p.EachName(dir, func(name string, _ uint32) syscall.Errno {
			if name == gitName || p.removedDirs.has(func() string { return path.Join(at, name) }) {
				return 0
			}
			return syscall.ENOTEMPTY
		})
	})
}

// markRemoved records the directory e, at the path at, which is not empty on the host, as removed
// by the sandbox. It does so if e contains only such directories, and a .git that the sandbox has
// removed: hidden says so. Else it returns ENOTEMPTY. d is open as its parent. The caller holds
// p.renameMu for writing.
func (p *privateGit) markRemoved(e *entry, d openDir, at string, hidden bool) syscall.Errno {
	inside := p.levels.inside(e.dir.getState(), e.name, true)
	switch _, errno := p.Stat(backing.At{FD: d.fd, Name: e.name + "/" + gitName}); {
	case errno == 0 && hidden && p.levels.owns(inside, gitName), errno == syscall.ENOENT:
	default:
		return syscall.ENOTEMPTY
	}
	if p.leftOver(d.fd, e.name, at) != 0 {
		return syscall.ENOTEMPTY
	}
	tmp := p.temp()
	err := cow.MakeWhiteout(p.work, tmp)
	if err == nil {
		err = unix.Renameat2(p.work, tmp, p.store, at, unix.RENAME_EXCHANGE)
	}
	if errors.Is(err, unix.ENOENT) { // it has no mirror
		if errno := p.makeStored(path.Dir(at)); errno != 0 {
			return errno
		}
		err = unix.Renameat(p.work, tmp, p.store, at)
	}
	if err != nil {
		return backing.Errno(err)
	}
	p.removedDirs.add(at)
	return 0
}

// recreate makes the directory e, which the sandbox has removed, an empty directory again, in
// which the sandbox has no .git. d is open as its parent. The caller holds p.renameMu.
func (p *privateGit) recreate(e *entry, d openDir) {
	at, errno := p.storePath(e.dir, e.name)
	if errno != 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	tmp := p.temp()
	err := unix.Mkdirat(p.work, tmp, 0o700)
	hide := func(name string) {
		if err == nil {
			err = cow.MakeWhiteout(p.work, tmp+"/"+name)
		}
	}
	hide(gitName)
	var below []string // removed directories, which a restart forgets
	_ = backing.InDir(d.fd, e.name, func(dir int) syscall.Errno {
		return p.EachName(dir, func(name string, _ uint32) syscall.Errno {
			if name != gitName {
				hide(name)
				below = append(below, path.Join(at, name))
			}
			return 0
		})
	})
	if err == nil {
		err = unix.Renameat2(p.work, tmp, p.store, at, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		p.Logger.Error("make a removed directory again", "name", at, "error", err)
		return
	}
	for _, name := range below {
		p.removedDirs.add(name)
	}
	p.removedDirs.remove(at)
	e.recreated = true
}
