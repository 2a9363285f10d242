package fusefs

import (
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// The sandbox can remove a directory in which the host has a .git, which the sandbox does not see: it removes its own .git, and
// all else. The host keeps the directory and its .git until wolffia, or the user, removes them; to the sandbox
// it is gone. In the store a whiteout has its name.

// A gone holds the paths of such directories. Its methods are safe for concurrent use; the zero value holds none.
type gone struct {
	mu    sync.RWMutex
	paths map[string]struct{} // guarded by mu
}

// loadGone reads the whiteouts in the directory of the store that is open as dir, at the path at of the tree.
func (t *tree) loadGone(dir int, at string) syscall.Errno {
	return t.eachName(dir, func(name string, typ uint32) syscall.Errno {
		switch {
		case name == gitName:
		case typ == unix.S_IFCHR:
			t.git.gone.add(path.Join(at, name))
		case typ == unix.S_IFDIR:
			fd, errno := openBeneath(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
			if errno != 0 {
				return errno
			}
			defer unix.Close(fd)
			return t.loadGone(fd, path.Join(at, name))
		}
		return 0
	})
}

func (g *gone) add(at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paths == nil {
		g.paths = map[string]struct{}{}
	}
	g.paths[at] = struct{}{}
}

func (g *gone) remove(at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.paths, at)
}

// has reports whether the directory at path() is gone. It calls path only if some are.
func (g *gone) has(path func() string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if len(g.paths) == 0 {
		return false
	}
	_, is := g.paths[path()]
	return is
}

// move follows a rename of the directory at from to to, or with swap their exchange.
func (g *gone) move(from, to string, swap bool) {
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

// isGone reports whether the sandbox has removed the directory called name of dir, and the host has it still.
func (t *tree) isGone(dir *node, name string) bool {
	return t.git != nil && dir != nil && t.git.gone.has(func() string { return t.table.path(dir, name) })
}

// leave makes the directory e, which is not empty on the host, one that is gone, if it has nothing but a .git that the
// sandbox has removed, and such directories. It reports whether it is. d is open as its parent. The caller holds
// t.renameMu for writing.
func (t *tree) leave(e *entry, d openDir) bool {
	at, errno := t.storePath(e.dir, e.name)
	if errno != 0 {
		return false
	}
	fd, errno := openBeneath(d.fd, e.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return false
	}
	defer unix.Close(fd)
	errno = t.eachName(fd, func(name string, _ uint32) syscall.Errno {
		if name == gitName || t.git.gone.has(func() string { return path.Join(at, name) }) {
			return 0
		}
		return syscall.ENOTEMPTY
	})
	if errno != 0 {
		return false
	}
	// What is below has a mirror, or its .git would be there.
	t.git.temps++
	tmp := "t" + strconv.FormatUint(t.git.temps, 36)
	if cow.MakeWhiteout(t.git.work, tmp) != nil || t.makeStored(path.Dir(at)) != 0 {
		return false
	}
	if err := unix.Renameat2(t.git.work, tmp, t.git.store, at, unix.RENAME_EXCHANGE); err == unix.ENOENT {
		err = unix.Renameat(t.git.work, tmp, t.git.store, at)
		if err != nil {
			return false
		}
	} else if err != nil {
		return false
	}
	t.git.gone.add(at)
	return true
}

// comeBack makes the directory e, which is gone, an empty one again, in which the sandbox has no .git. The caller holds
// t.renameMu.
func (t *tree) comeBack(e *entry) {
	at, errno := t.storePath(e.dir, e.name)
	if errno != 0 {
		return
	}
	t.git.mu.Lock()
	defer t.git.mu.Unlock()
	if unix.Unlinkat(t.git.store, at, 0) != nil || t.makeStored(at) != 0 {
		return
	}
	fd, errno := openBeneath(t.git.store, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return
	}
	defer unix.Close(fd)
	if err := cow.MakeWhiteout(fd, gitName); err != nil {
		t.logger.Error("hide a removed .git", "of", at, "error", err)
	}
	t.git.gone.remove(at)
	e.back = true
}
