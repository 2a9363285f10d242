package gitcopy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
)

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// lstat returns the entry at the path name of the directory dir, without following a link at its end.
func lstat(dir int, name string) (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return st, nil
}

// readAt returns the content of a file of at most that many bytes.
func readAt(dir int, name string, most int64) ([]byte, error) {
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", name))
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

// eachName calls f for each name in the directory dir, which may be open for reading more than once.
func eachName(dir int, f func(name string) error) error {
	fd, err := beneath.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := f(name); err != nil {
			return err
		}
	}
	return nil
}

// into opens the directory at the path name of the copy dir.
func (p *copying) into(dir int, name string) (int, error) {
	return beneath.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}
