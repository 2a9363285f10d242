package gitcopy

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// lstat returns the entry at the path name of the directory dir, without following a link at its
// end.
func lstat(dir int, name string) (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return st, nil
}

// eachEntry calls f for each entry of the directory dir, which may be open for reading more than
// once.
func eachEntry(dir int, f func(e os.DirEntry) error) error {
	fd, err := beneath.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// openDir opens the directory at the path name of the directory dir.
func openDir(dir int, name string) (int, error) {
	return beneath.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// flush writes the file at the path name of the directory dir to the disk, if there is one.
func flush(dir int, name string) error {
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}
