package reposync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// openOuter is openMade for an absolute path out of the codebase, where no sandbox puts links, and
// where other file systems can be mounted.
func openOuter(path string) (*os.File, error) {
	for at := path; ; at = filepath.Dir(at) {
		dir, err := beneath.OpenPlain(at, unix.O_RDONLY|unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) && at != "/" {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		rest, err := filepath.Rel(at, path)
		if err != nil {
			return nil, err
		}
		return openMade(dir, rest)
	}
}

// openMade opens the directory at a path below dir, over no link, and makes it below a git
// directory.
func openMade(dir *os.File, path string) (*os.File, error) {
	at, err := openDirectory(dir, ".")
	if err != nil {
		return nil, err
	}
	git := isGitDir(at)
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		next, err := openDirectory(at, name)
		if git && errors.Is(err, fs.ErrNotExist) {
			if err = makeDir(at, name, at); err == nil {
				next, err = openDirectory(at, name)
			}
		}
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
		git = git || isGitDir(at)
	}
	return at, nil
}

// isGitDir reports whether a directory has a HEAD.
func isGitDir(dir *os.File) bool {
	fd, err := beneath.Open(int(dir.Fd()), "HEAD", unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// makeDir makes a directory in dir. Its owner is like's.
func makeDir(dir *os.File, name string, like *os.File) error {
	err := unix.Mkdirat(int(dir.Fd()), name, 0o777)
	if err == nil {
		err = chownLike(dir, name, like)
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return nil
}

// chownLike gives a file in dir the owner of like, if this is root.
func chownLike(dir *os.File, name string, like *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(like.Fd()), &st); err != nil {
		return err
	}
	return unix.Fchownat(int(dir.Fd()), name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

// openDirectory opens the directory at a path below dir, over no link.
func openDirectory(dir *os.File, path string) (*os.File, error) {
	fd, err := beneath.Open(int(dir.Fd()), path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), path), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
}

// inodeOf returns the number of a file in dir.
func inodeOf(dir *os.File, name string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, &os.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return st.Ino, nil
}

// has reports whether dir has a file or directory at a path.
func has(dir *os.File, path string) bool {
	fd, err := beneath.Open(int(dir.Fd()), path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFCHR // a whiteout
}

// hasBelow is has for the path of a directory.
func hasBelow(dir, path string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	return has(f, path)
}

// removeEmpty removes an empty directory below dir.
func removeEmpty(dir *os.File, path string) error {
	above, err := openDirectory(dir, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	if err := unix.Unlinkat(int(above.Fd()), filepath.Base(path), unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "remove", Path: filepath.Join(dir.Name(), path), Err: err}
	}
	return nil
}

// pointerText returns the content of a file .git that leads to a git directory.
func pointerText(to string) string { return "gitdir: " + to + "\n" }

// writePointer makes the file .git of a working tree.
func writePointer(place *os.File, to string) error {
	f, err := beneath.Create(int(place.Fd()), ".git", 0o666)
	if err != nil {
		return &os.PathError{Op: "make", Path: filepath.Join(place.Name(), ".git"), Err: err}
	}
	_, err = f.WriteString(pointerText(to))
	return errors.Join(err, chownLike(place, ".git", place), f.Close())
}

// removePointer removes the file .git of a working tree, if it leads to a git directory.
func removePointer(place *os.File, to string) error {
	text, err := beneath.ReadFile(int(place.Fd()), ".git", unix.PathMax+20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if string(text) != pointerText(to) {
		return fmt.Errorf("%s/.git leads elsewhere", place.Name())
	}
	return unix.Unlinkat(int(place.Fd()), ".git", 0)
}
