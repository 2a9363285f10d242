package gitcopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
)

const (
	gitName = ".git"
	// hostsName is fusefs.HostsName, a directory that each directory in a copy has.
	hostsName = "wolffia-host"
)

// Options are options of Open.
type Options struct {
	// Codebase is the path of the codebase on the host, without links, and MountPoint where the
	// sandbox sees it.
	Codebase, MountPoint string
	// Shown is an absolute path at which the sandbox sees the shown parts of the host's git
	// directories, in directories called by their numbers; "": in each directory of a copy, at
	// ShownAt.
	Shown string
	// Dir is the directory of the sandbox's private git directories, open for reading: package
	// statedir names its entries. The Copier of Open owns it.
	Dir *os.File
	// Work is the path of a directory in Dir, for temporary names.
	Work string
	// Hosts is the name of the file in Dir that has the paths of the host's git directories; Mark
	// of the one that Changed makes: "" makes none.
	Hosts, Mark string
	// Begin is called with a complete copy, and the path of its .git in the store, before the
	// sandbox can see it; nil is not called.
	Begin func(copy, at string) error
	// Credentials copies credentials in configurations too.
	Credentials bool
	// Monitor says that git inside has the file system monitor of fusefs. Ignore has the names
	// that it ignores in all repositories.
	Monitor bool
	Ignore  string
}

// A Copier makes private git directories. It implements fusefs.GitHost, and is safe for concurrent
// use.
type Copier struct {
	Options
	dir  *os.File // Options.Work
	work int      // its descriptor

	mu    sync.Mutex
	hosts []string   // paths of the host's git directories, by their numbers; guarded by mu
	open  []*os.File // of these, nil if not open yet; guarded by mu
	temps int        // guarded by mu
}

// Open returns a Copier. The caller closes it.
func Open(o Options) (*Copier, error) {
	c := &Copier{Options: o}
	var err error
	if c.work, err = beneath.Open(int(o.Dir.Fd()), o.Work, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return nil, fmt.Errorf("open %s of the private git directories: %w", o.Work, err)
	}
	c.dir = os.NewFile(uintptr(c.work), o.Work)
	all, err := readHosts(o.Dir, o.Hosts)
	if err != nil {
		_ = c.dir.Close()
		return nil, err
	}
	c.know(all)
	return c, nil
}

// Close closes what Open has opened. No call of another method may follow.
func (c *Copier) Close() error {
	for _, dir := range c.open {
		_ = dir.Close() // nil is fine
	}
	return errors.Join(c.dir.Close(), c.Dir.Close())
}

// Changed makes the mark.
func (c *Copier) Changed() {
	if c.Mark == "" {
		return
	}
	fd, err := beneath.Open(int(c.Dir.Fd()), c.Mark, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		unix.Close(fd)
	}
}

// Objects returns a descriptor of the host's git directory number n, which stays c's.
func (c *Copier) Objects(n int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= len(c.hosts) {
		if all, err := readHosts(c.Dir, c.Hosts); err == nil {
			c.know(all) // one that the sandbox has made is on the host now
		}
	}
	if n < 0 || n >= len(c.hosts) {
		return -1, false
	}
	if c.open[n] == nil {
		// The sandbox can put links below the codebase.
		dir, err := beneath.OpenPlain(c.hosts[n], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, false
		}
		c.open[n] = dir
	}
	return int(c.open[n].Fd()), true
}

// Count returns how many of the host's git directories have numbers: 0 and on.
func (c *Copier) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.hosts)
}

// number returns the number of the host's git directory at the absolute path, which gets the next
// one if it has none.
func (c *Copier) number(dir string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, all, err := number(context.Background(), c.Dir, c.Hosts, dir, nil)
	if err == nil {
		c.know(all)
	}
	return n, err
}

// know replaces the list of the host's git directories, which only grows. The caller holds c.mu.
func (c *Copier) know(all []string) {
	for len(c.open) < len(all) {
		c.open = append(c.open, nil)
	}
	c.hosts = all
}

// Moved implements fusefs.GitHost.
func (c *Copier) Moved(from, to string, swap bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, to = filepath.Join(c.Codebase, from)+"/", filepath.Join(c.Codebase, to)+"/"
	all, err := changeHosts(context.Background(), c.Dir, c.Hosts, nil, func(hosts []string) []string {
		for i, dir := range hosts {
			if rest, below := strings.CutPrefix(dir, from); below {
				hosts[i] = to + rest
			} else if rest, below := strings.CutPrefix(dir, to); below && swap {
				hosts[i] = from + rest
			}
		}
		return hosts
	})
	if err == nil {
		c.know(all)
	}
	return err
}

// temp returns an unused name in work.
func (c *Copier) temp() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.temps++
	return "p" + strconv.Itoa(c.temps)
}

// CopyGitDir implements fusefs.GitHost.
func (c *Copier) CopyGitDir(dir, store int, at string) error {
	st, err := lstat(dir, gitName)
	if err != nil {
		return err
	}
	tmp := c.temp()
	if err := c.copyTo(tmp, filepath.Join(at, gitName), dir, st); err != nil {
		_ = rmtree.Remove(c.dir, tmp)
		return err
	}
	return unix.Renameat2(c.work, tmp, store, gitName, unix.RENAME_NOREPLACE)
}

// copyTo makes the copy called tmp, for the path at of the store, of the entry .git of dir, which
// is st.
func (c *Copier) copyTo(tmp, at string, dir int, st *unix.Stat_t) error {
	here, err := os.Readlink(procPath(dir))
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		git, err := beneath.Open(dir, gitName, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		return c.repository(tmp, at, dir, os.NewFile(uintptr(git), filepath.Join(here, gitName)), false)
	case unix.S_IFREG:
		text, err := beneath.ReadFile(dir, gitName, maxPointer)
		if err != nil {
			return err
		}
		to, is := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
		if !is {
			return c.put(c.work, tmp, text) // git reports the error in it
		}
		return c.copyTarget(tmp, at, dir, here, to,
			func() error { return c.put(c.work, tmp, []byte("gitdir: "+c.inside(to)+"\n")) })
	case unix.S_IFLNK:
		to, err := os.Readlink(filepath.Join(procPath(dir), gitName))
		if err != nil {
			return err
		}
		return c.copyTarget(tmp, at, dir, here, to, func() error { return unix.Symlinkat(c.inside(to), c.work, tmp) })
	}
	return errors.New("it is not a directory, a file or a link")
}

// inside returns the path at which the sandbox sees the one of the host's, if that is absolute and
// in the codebase; else to.
func (c *Copier) inside(to string) string {
	if rest, below := strings.CutPrefix(to, c.Codebase+"/"); below {
		return filepath.Join(c.MountPoint, rest)
	}
	return to
}

// copyTarget makes a private repository of the git directory to, which the .git of the directory
// here, open as tree, names. If to is in a .git of the codebase, it calls same instead: the
// sandbox then has to at the same place.
func (c *Copier) copyTarget(tmp, at string, tree int, here, to string, same func() error) error {
	if to = filepath.Clean(to); !filepath.IsAbs(to) {
		to = filepath.Join(here, to)
	}
	// In the codebase the sandbox can put links that lead to another repository of the user's.
	real, below := to, strings.HasPrefix(to, c.Codebase+"/")
	if !below {
		var err error
		if real, err = filepath.EvalSymlinks(to); err != nil {
			return same() // it leads nowhere, on both sides
		}
		below = strings.HasPrefix(real, c.Codebase+"/")
	}
	if below && strings.Contains(strings.TrimPrefix(real, c.Codebase)+"/", "/"+gitName+"/") {
		return same()
	}
	git, err := beneath.OpenPlain(real, unix.O_RDONLY|unix.O_DIRECTORY)
	if below && err != nil {
		return same()
	}
	if err != nil {
		return err
	}
	return c.repository(tmp, at, tree, git, true)
}

// put makes the file at the path name of the directory dir, with the given text.
func (c *Copier) put(dir int, name string, text []byte) error {
	f, err := beneath.Create(dir, name, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
