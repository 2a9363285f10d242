package gitcopy

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitindex"
	"wolffia/internal/sys/beneath"
)

// index prepares the index in the git directory to, a copy, for the file system monitor: if git
// inside has one it asks that at its first look at the working tree already. It keeps the times:
// by them git finds files that have changed since the index was written.
func (p *copying) index(to int) error {
	tree := p.tree
	p.tree = -1
	st, err := lstat(to, "index")
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := beneath.ReadFile(to, "index", maxBytes)
	if err != nil {
		return err
	}
	x, err := gitindex.Parse(data)
	if err != nil || !x.Whole() {
		return nil // git inside reports the error in it
	}
	var c *gitindex.Cache
	if tree >= 0 && p.Monitor {
		c = &gitindex.Cache{Top: filepath.Join(p.MountPoint, filepath.Dir(p.at)), Root: x.Tree(tree)}
		if p.Ignore != "" {
			c.Excludes = x.IgnoreID([]byte(p.Ignore))
		}
		if text, err := beneath.ReadFile(to, "info/exclude", maxPointer); err == nil {
			c.Info = x.IgnoreID(text)
			if st, err := lstat(to, "info/exclude"); err == nil {
				c.InfoStat = gitindex.StatOf(st)
			}
		}
	}
	if err := unix.Unlinkat(to, "index", 0); err != nil {
		return err
	}
	if err := p.put(to, "index", x.With(c)); err != nil {
		return err
	}
	return errors.Join(unix.Fchmodat(to, "index", st.Mode&0o777, 0),
		unix.UtimesNanoAt(to, "index", []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}
