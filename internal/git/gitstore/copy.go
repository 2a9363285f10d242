package gitstore

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

const gitName = ".git"

// Copy makes the sandbox's own .git of the directory at a path of the codebase, which is open as
// root, unless the sandbox has one that is not empty; the path of the codebase itself is ".". It
// reports whether the sandbox's .git is a directory. An error of class fs.ErrNotExist says that
// the host has no .git there.
func (s *Store) Copy(root int, path string) (dir bool, err error) {
	if dir, err := s.isDir(path); !dir && err == nil || err != nil && err != unix.ENOENT {
		return dir, err
	}
	// An empty directory was empty on the host, or the sandbox has removed its entries.
	err = unix.Unlinkat(int(s.Store.Fd()), filepath.Join(path, gitName), unix.AT_REMOVEDIR)
	if err == unix.ENOTEMPTY {
		return true, nil
	}
	if err != nil && err != unix.ENOENT {
		return false, err
	}
	from, err := openDir(root, path)
	if err != nil {
		return false, err
	}
	defer unix.Close(from)
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' || path == "." {
			continue
		}
		if err := unix.Mkdirat(int(s.Store.Fd()), path[:end], 0o700); err != nil && err != unix.EEXIST {
			return false, err
		}
	}
	to, err := openDir(int(s.Store.Fd()), path)
	if err != nil {
		return false, err
	}
	defer unix.Close(to)
	if err := s.CopyGitDir(from, to, path); err != nil {
		return false, err
	}
	return s.isDir(path)
}

// Open opens the sandbox's own .git of the directory at a path of the codebase with O_PATH. The
// caller closes it.
func (s *Store) Open(path string) (fd int, err error) {
	return beneath.Open(int(s.Store.Fd()), filepath.Join(path, gitName), unix.O_PATH|unix.O_NOFOLLOW, 0)
}

// isDir reports whether the sandbox's own .git of the directory at a path is a directory.
func (s *Store) isDir(path string) (bool, error) {
	fd, err := s.Open(path)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// openDir opens the directory at a path below dir.
func openDir(dir int, path string) (int, error) {
	return beneath.Open(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}
