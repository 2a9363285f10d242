package cow

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// maxDepth bounds how deep directories are that Copy copies, since it keeps two descriptors for
// each.
const maxDepth = 4096

// Copy copies the upper layer and its log: the layer to the empty directory upper, which may be
// open with O_PATH, and the log to the empty file log. Content is shared where the file system can
// (ioctl_ficlone(2)).
func (l *Layers) Copy(upper int, log *os.File) error {
	c := &copying{Layers: l, links: map[uint64]string{}, top: upper, buf: make([]byte, 64<<10)}
	err := c.dir(l.Upper, upper, "", 0)
	var o *object
	if err == nil {
		o, err = statAt(l.Upper, "")
	}
	if err == nil { // the sandbox sees it as the codebase's; a directory that is moved must be writable
		err = unix.Fchmodat(unix.AT_FDCWD, procPath(upper), o.perms()|0o700, 0)
	}
	if err != nil {
		return fmt.Errorf("copy the upper layer: %w", err)
	}
	l.Log.mu.Lock()
	end := l.Log.end
	l.Log.mu.Unlock()
	if _, err := io.Copy(log, io.NewSectionReader(l.Log.f, 0, end)); err != nil {
		return fmt.Errorf("copy the log of originals: %w", err)
	}
	return nil
}

type copying struct {
	*Layers
	top   int
	links map[uint64]string // by inode: the path of the copy of a file with several names
	n     int
	buf   []byte

	noClone bool // the file system cannot share content
}

// dir copies all in the directory from to the directory to, which is at the path at.
func (c *copying) dir(from, to int, at string, depth int) error {
	if depth > maxDepth {
		return errors.New("its directories are too deep")
	}
	all, err := c.list(from, maxEntries-c.n)
	if err != nil {
		return err
	}
	c.n += len(all)
	for _, e := range all {
		if e.object.isDir() {
			continue
		}
		if err := c.one(from, to, e.name, join(at, e.name), e.object); err != nil {
			return fmt.Errorf("%s: %w", Quote(join(at, e.name)), err)
		}
	}
	for _, e := range all {
		if !e.object.isDir() {
			continue
		}
		if err := c.sub(from, to, e, join(at, e.name), depth); err != nil {
			return err
		}
	}
	o, err := statAt(from, "")
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(to), times(o), 0)
}

// sub copies the directory e.
func (c *copying) sub(from, to int, e *entry, at string, depth int) error {
	src, err := c.ownDir(from, e.name)
	if err != nil || src < 0 {
		return errors.Join(err, unix.ESTALE)
	}
	defer unix.Close(src)
	if err := unix.Mkdirat(to, e.name, 0o700); err != nil {
		return err
	}
	dst, err := beneath.Open(to, e.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	half, lower, err := c.lowerOf(src)
	if err == nil && half != Merged {
		err = SetLower(dst, half, lower)
	}
	if err == nil && IsGit(e.name) {
		err = c.copyMark(procPath(dst), procPath(src))
	}
	if err == nil {
		err = c.dir(src, dst, at, depth+1)
	}
	if err != nil {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, procPath(dst), e.object.perms(), 0) // last: the mode can forbid changes in the directory
}

// one copies an object that is not a directory.
func (c *copying) one(from, to int, name, at string, o *object) error {
	if o.Nlink > 1 && o.isFile() {
		if first, ok := c.links[o.Ino]; ok && c.link(first, to, name) == nil {
			return nil
		}
		c.links[o.Ino] = at
	}
	switch {
	case o.isWhiteout():
		return MakeWhiteout(to, name)
	case o.isLink():
		target, err := c.ownLink(from, name)
		if err == nil {
			err = unix.Symlinkat(target, to, name)
		}
		if err == nil {
			err = unix.UtimesNanoAt(to, name, times(o), unix.AT_SYMLINK_NOFOLLOW)
		}
		return err
	case o.isFile():
		return c.file(from, to, name, o)
	}
	return unix.Mknodat(to, name, uint32(o.Mode)&(unix.S_IFMT|0o777), 0)
}

// link makes a name of a file that is copied already.
func (c *copying) link(first string, to int, name string) error {
	dir, err := c.ownDir(c.top, parentOf(first))
	if err != nil || dir < 0 {
		return errors.Join(err, unix.ESTALE)
	}
	defer unix.Close(dir)
	return c.asOwner(dir, func() error { return unix.Linkat(dir, path.Base(first), to, name, 0) })
}

func (c *copying) file(from, to int, name string, o *object) error {
	src, size, err := c.openOwn(from, name)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	dst, err := beneath.Open(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	if size > 0 {
		if err := c.content(dst, src, size); err != nil {
			return err
		}
	}
	if size >= MinData {
		if err := c.marks(dst, src); err != nil {
			return err
		}
	}
	if IsGit(name) {
		if err := c.copyMark(procPath(dst), procPath(src)); err != nil {
			return err
		}
	}
	if o.perms() != 0o600 {
		if err := unix.Fchmod(dst, o.perms()); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(dst), times(o), 0)
}

// marks copies the attributes that say where a file's content is.
func (c *copying) marks(to, from int) error {
	for _, attr := range []string{AttrData, AttrLower} {
		n, err := unix.Fgetxattr(from, attr, c.buf[:unix.PathMax])
		if err != nil {
			break // a file has both or none
		}
		if err := unix.Fsetxattr(to, attr, c.buf[:n], 0); err != nil {
			return err
		}
	}
	return nil
}

// copyMark copies AttrGit. Without it, as one of a mode that forbids to read it, a .git is a
// change.
func (c *copying) copyMark(to, from string) error {
	if n, err := unix.Getxattr(from, AttrGit, c.buf); err == nil {
		return unix.Setxattr(to, AttrGit, c.buf[:n], 0)
	}
	return nil
}

// content copies size bytes. A small file costs the fewest calls if it is read and written.
func (c *copying) content(to, from int, size int64) error {
	if !c.noClone {
		err := unix.IoctlFileClone(to, from)
		if err == nil {
			return nil
		}
		c.noClone = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOTTY)
	}
	if size >= int64(len(c.buf)) {
		return copyData(to, from, size)
	}
	n, err := unix.Pread(from, c.buf, 0)
	if err != nil {
		return err
	}
	if n == len(c.buf) { // it has grown
		return copyData(to, from, size)
	}
	for at := 0; at < n; {
		m, err := unix.Pwrite(to, c.buf[at:n], int64(at))
		if err != nil {
			return err
		}
		at += m
	}
	return nil
}

// copyData copies size bytes and keeps holes.
func copyData(to, from int, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(from, data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for data < hole {
			in, out := data, data
			n, err := unix.CopyFileRange(from, &in, to, &out, int(min(hole-data, 1<<30)), 0)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			data += int64(n)
		}
		at = hole
	}
	return unix.Ftruncate(to, size)
}
