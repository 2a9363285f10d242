package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/perm/plainyaml"
)

// ErrNotRegular matches the error of ReadProject for a name that is not a regular file.
var ErrNotRegular = errors.New("is not a regular file")

// UserFile returns the path of the user's file: config.yaml in wolffia below
// $XDG_CONFIG_HOME, or else ~/.config; "" if neither variable is set.
func UserFile(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "wolffia", "config.yaml")
}

// ReadUser returns the content of the user's file, which may be a link. Others than the
// user and root must not be able to write it. fs.ErrNotExist: it does not exist.
func ReadUser(path string) ([]byte, error) { return read(path, 0, owned) }

// ReadProject returns the content of the project's file in the directory dir. It does not
// follow a link in the place of the file. fs.ErrNotExist: it does not exist.
func ReadProject(dir string) ([]byte, error) {
	data, err := read(filepath.Join(dir, ProjectName), unix.O_NOFOLLOW, nil)
	if errors.Is(err, unix.ELOOP) {
		err = ErrNotRegular
	}
	return data, err
}

// read returns the content of a regular file, cut off behind the most that Parse accepts.
func read(path string, flags int, check func(*unix.Stat_t) error) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	if err != nil {
		if e, ok := errors.AsType[unix.Errno](err); ok {
			err = e // the caller names the path
		}
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrNotRegular
	}
	if check != nil {
		if err := check(&st); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, plainyaml.MaxFile+1))
}

// owned returns an error if a user other than the caller and root can write a file. A
// group that has the user's number is taken for the user's own.
func owned(st *unix.Stat_t) error {
	switch uid := os.Geteuid(); {
	case st.Uid != 0 && int(st.Uid) != uid:
		return fmt.Errorf("its owner is uid %d, not you", st.Uid)
	case st.Mode&0o002 != 0, st.Mode&0o020 != 0 && st.Gid != st.Uid:
		return errors.New("others may write it: chmod go-w")
	}
	return nil
}
