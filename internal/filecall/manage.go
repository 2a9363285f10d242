package filecall

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
)

// remove deletes what is not a directory.
func remove(p string) error {
	st, err := os.Lstat(p)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return wrong("%q: a directory: delete it as one", p)
	}
	return os.Remove(p)
}

// rmdir deletes a directory with all that is below it, on its own file system.
func rmdir(p string) error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Lstat(p, &st) }); err != nil {
		return &fs.PathError{Op: "stat", Path: p, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return wrong("%q: not a directory", p)
	}
	return removeBelow(p, st.Dev)
}

func removeBelow(dir string, device uint64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			err = os.Remove(p)
		} else {
			var st unix.Stat_t
			if err = again(func() error { return unix.Lstat(p, &st) }); err == nil && st.Dev != device {
				err = wrong("%q: another file system is mounted there", p)
			}
			if err == nil {
				err = removeBelow(p, device)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}

// apply changes mode and owner of a file; symbolic links are followed.
func (m *Mode) apply(p string) error {
	if m.Mode&^0o7777 != 0 {
		return wrong("mode %o: more than permission bits", m.Mode)
	}
	if m.Owner != "" || m.Group != "" {
		uid, err := id(m.Owner, false)
		if err != nil {
			return err
		}
		gid, err := id(m.Group, true)
		if err != nil {
			return err
		}
		err = os.Chown(p, uid, gid)
		others := uid >= 0 && uid != os.Getuid() || gid >= 0 && gid != os.Getgid()
		// Its user namespace maps no other number: the kernel answers EINVAL, seccomp EPERM.
		if errors.Is(err, unix.EINVAL) || others && errors.Is(err, unix.EPERM) {
			return wrong("owner %q, group %q: the sandbox has its own user and group only: leave them out", m.Owner, m.Group)
		}
		if err != nil {
			return err
		}
	}
	if m.Mode == 0 {
		return nil
	}
	if err := again(func() error { return unix.Chmod(p, m.Mode) }); err != nil {
		return &fs.PathError{Op: "chmod", Path: p, Err: err}
	}
	return nil
}

// id returns the number of a user or group; -1 for an empty name, which changes nothing.
func id(name string, group bool) (int, error) {
	if name == "" {
		return -1, nil
	}
	text := name
	if group {
		if g, err := user.LookupGroup(name); err == nil {
			text = g.Gid
		}
	} else if u, err := user.Lookup(name); err == nil {
		text = u.Uid
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, wrong("%q: no such user or group in the sandbox", name)
	}
	return int(n), nil
}

// do renames, and makes the directories above the new name. Between file systems it copies a
// regular file.
func (m Move) do() error {
	from, to := m.From, m.To
	if _, err := os.Lstat(from); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	exists := &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	if m.Replace {
		if err := again(func() error { return unix.Rename(from, to) }); err != nil && !errors.Is(err, unix.EXDEV) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		} else if err == nil {
			return nil
		}
		return moveCopy(from, to, true)
	}
	err := again(func() error { return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system has no such flag
		if _, lerr := os.Lstat(to); lerr == nil {
			return exists
		}
		err = again(func() error { return unix.Rename(from, to) })
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return moveCopy(from, to, false)
	case errors.Is(err, unix.EEXIST):
		return exists
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func moveCopy(from, to string, replace bool) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil && !replace {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if !st.Mode().IsRegular() {
		return wrong("%q: only a file can be moved to another file system: copy the directory with a command", from)
	}
	err = archive.PutFrom(func(w io.Writer) error { return archive.Get(w, from, 1<<62) }, to)
	if err != nil {
		return err
	}
	if err := os.Chmod(to, st.Mode()&fs.ModePerm); err != nil {
		return err
	}
	return os.Remove(from)
}
