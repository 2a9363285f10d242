package staticfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// gitName is the name of a git directory in a working tree, or of the file that leads to one.
const gitName = ".git"

// A Git has the git directories that a sandbox has of its own. Paths are of directories of the
// codebase that have a .git, relative to its root, which is ".".
type Git struct {
	// Rules say which they are: those that the sandbox may write. The others are the host's own,
	// by the rules of Mount.
	Rules *perm.Policy
	// Copy makes the sandbox's own .git of a directory, unless it exists, and reports whether it
	// is a directory. An error of class fs.ErrNotExist says that the host has no .git any more.
	Copy func(path string) (dir bool, err error)
	// Open opens it with O_PATH.
	Open func(path string) (fd int, err error)
	// Host opens the host's git directory number n, whose objects the sandbox may read; Count is
	// the number of directories. The descriptor stays Git's. ok is false if the directory does not
	// exist.
	Host  func(n int) (fd int, ok bool)
	Count func() int
	// Dir is an empty directory in memory, which the sandbox sees at Shown. It gets, read-only, a
	// directory for each number with the shown parts of the host's git directory; and writable the
	// git directory that a .git leads to that is a file on the host and a directory in the copy.
	Dir, Shown string
}

// owns reports whether the .git of a directory is the sandbox's own, unless it cannot be copied. g
// may be nil.
func (g *Git) owns(path string) bool {
	at := filepath.Join(path, gitName)
	return g != nil && g.Rules.Level(at, true) == perm.Write && g.Rules.Level(at, false) == perm.Write
}

// own plans a .git that is the sandbox's own. done is false if it cannot be that: then it is the
// host's, as the rules say.
func (w *planner) own(parent, n *node, at *where) (done bool) {
	dir, err := w.git.Copy(at.dir())
	if err == nil && n.is == folder && !dir {
		err = errors.New("the sandbox has a file in the place of this directory")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		return false
	case err != nil:
		if w.stats.GitReason == "" {
			w.stats.GitReason = at.join(gitName) + ": " + err.Error()
		}
		return false
	}
	n.as, n.text = own, at.dir()
	w.stats.Own++
	w.count(parent, n)
	return true
}

// A shown is the directory Git.Dir while it is filled.
type shown struct {
	*Git
	under, top int // the directory, in which places to mount on are made; and the read-only mount over it
	file       int // an empty file
	aways      int
}

// show mounts Git.Dir over itself, read-only, with what the host has in it. dir is for its own
// files. The caller closes the result, which is nil if g is.
func (g *Git) show(dir string) (s *shown, err error) {
	if g == nil {
		return nil, nil
	}
	s = &shown{Git: g, under: -1, top: -1, file: -1}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.under, err = unix.Open(g.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if s.file, err = smallFile(filepath.Join(dir, "no-alternates"), ""); err != nil {
		return nil, err
	}
	if s.top, err = clone(s.under, unix.MOUNT_ATTR_RDONLY); err == nil {
		err = moveTo(s.top, s.under)
	}
	return s, err
}

// close closes what show has opened. s may be nil.
func (s *shown) close() {
	if s == nil {
		return
	}
	for _, fd := range []int{s.under, s.top, s.file} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// hosts mounts the shown parts of the host's git directories. It skips directories that were
// removed. s may be nil.
func (s *shown) hosts() error {
	if s == nil {
		return nil
	}
	for n := range s.Count() {
		dir, ok := s.Host(n)
		if !ok {
			continue
		}
		if err := unix.Mkdirat(s.under, strconv.Itoa(n), 0o755); err != nil {
			return err
		}
		for _, name := range []string{"objects", "lfs"} {
			if err := s.host(dir, n, name); err != nil {
				return fmt.Errorf("git directory %d of the host: %s: %w", n, name, err)
			}
		}
	}
	return nil
}

// host mounts the directory called name of the host's git directory number n, which is open as dir.
func (s *shown) host(dir, n int, name string) error {
	fd, err := beneath.Open(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	made, err := s.mount(fd, strconv.Itoa(n)+"/"+name, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	// It has paths of the host. The copies name the directories that these lead to.
	at, err := beneath.Open(made, "info/alternates", unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil // the copy has no alternates
	}
	defer unix.Close(at)
	empty, err := clone(s.file, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(empty)
	return moveTo(empty, at)
}

// mount mounts the directory fd at a path of Git.Dir, whose last name it makes. The caller closes
// the mount's root.
func (s *shown) mount(fd int, path string, attributes uint64) (made int, err error) {
	if err := unix.Mkdirat(s.under, path, 0o755); err != nil {
		return -1, err
	}
	at, err := beneath.Open(s.top, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if made, err = clone(fd, attributes); err != nil {
		return -1, err
	}
	if err := moveTo(made, at); err != nil {
		_ = unix.Close(made)
		return -1, err
	}
	return made, nil
}

// own returns a mount of the sandbox's own git directory that e stands for, or of a file in dir
// that leads to it.
func (s *shown) own(e *node, dir string) (int, error) {
	fd, err := s.Open(e.text)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	folders := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case folders == (e.is == folder):
		return clone(fd, 0)
	case !folders:
		return -1, errChanged
	}
	s.aways++
	name := "away" + strconv.Itoa(s.aways)
	made, err := s.mount(fd, name, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.Close(made)
	lead, err := smallFile(filepath.Join(dir, name), "gitdir: "+filepath.Join(s.Shown, name)+"\n")
	if err != nil {
		return -1, err
	}
	defer unix.Close(lead)
	return clone(lead, unix.MOUNT_ATTR_RDONLY)
}

// smallFile makes a file that can be read, and opens it with O_PATH.
func smallFile(path, text string) (int, error) {
	if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
		return -1, err
	}
	return unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
