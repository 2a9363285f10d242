package echo

import (
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// Repeat repeats the changes of b that w has watches for, in the tree that is open as root. The
// caller has locked its thread, and the tree server has its number. With an error nothing was
// repeated: the tree server takes the thread for another one, and would do what it does.
// Single changes may fail: the host goes on changing the tree.
func Repeat(root int, b *Batch, w *Watches) error {
	var st unix.Stat_t
	err := unix.ENOENT
	if b.Probe != "" {
		err, _ = unix.Fstatat(root, b.Probe, &st, unix.AT_SYMLINK_NOFOLLOW).(unix.Errno)
	}
	if err != 0 {
		return fmt.Errorf("the tree server does not know the thread that repeats the host's changes: %w", err)
	}
	dir, path := -1, ""
	defer func() { _ = unix.Close(dir) }()
	for i := range b.Changes {
		c := &b.Changes[i]
		if !w.Has(c.DirInode) && !w.Has(c.Inode) {
			continue
		}
		if dir < 0 || path != string(c.Dir) {
			_ = unix.Close(dir)
			path = string(c.Dir)
			dir, _ = beneath.Open(root, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		}
		if dir >= 0 {
			repeat(dir, c)
		}
	}
	return nil
}

// repeat repeats c in the directory that is open as dir.
func repeat(dir int, c *Change) {
	name := string(c.Name)
	switch c.Kind {
	case Made:
		if repeatMade(dir, name, c) == unix.ENOENT { // it had expired in between
			_ = repeatMade(dir, name, c)
		}
	case Removed:
		flags := 0
		if c.Type == unix.S_IFDIR {
			flags = unix.AT_REMOVEDIR
		}
		_ = unix.Unlinkat(dir, name, flags)
	case Written:
		_ = written(dir, name, c.Closed)
	case Touched:
		_ = touch(dir, name)
	case Listed:
		_ = touch(dir, ".")
	}
}

// repeatMade repeats that name was made. What a program inside has found meanwhile is written or
// touched instead.
func repeatMade(dir int, name string, c *Change) (err error) {
	switch c.Type {
	case unix.S_IFDIR:
		err = unix.Mkdirat(dir, name, 0o700)
	case unix.S_IFLNK:
		err = unix.Symlinkat(".", dir, name)
	default:
		err = unix.Mknodat(dir, name, c.Type|0o600, 0)
	}
	switch {
	case err == unix.EEXIST && c.Type == unix.S_IFDIR:
		_ = touch(dir, ".")
		return touch(dir, name)
	case err == unix.EEXIST || err == nil && c.Closed:
		return written(dir, name, c.Closed)
	}
	return err
}

// written causes IN_MODIFY, by a new time of modification only (fsnotify_change in
// include/linux/fsnotify.h), and with closed IN_CLOSE_WRITE.
func written(dir int, name string, closed bool) error {
	fd := -1
	if closed {
		fd, _ = unix.Openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	defer func() { _ = unix.Close(fd) }()
	return setTimes(dir, name, unix.UTIME_OMIT)
}

// touch causes IN_ATTRIB.
func touch(dir int, name string) error { return setTimes(dir, name, unix.UTIME_NOW) }

// setTimes sets the time of modification; that of access too unless it is UTIME_OMIT.
func setTimes(dir int, name string, access int64) error {
	times := []unix.Timespec{{Nsec: access}, {Nsec: unix.UTIME_NOW}}
	return unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW)
}
