package boot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/runtime/launch"
)

// CopyMemory makes a statedir.CowMemory in the directory to, as the directory from has one. The
// record, which a restore clears, is a copy; the memory, which is only read, has second names. from
// may have none.
func CopyMemory(from, to *os.File) (err error) {
	in, err := OpenMemoryDir(from)
	if err != nil || in == nil {
		return err
	}
	defer in.Close()
	if err := unix.Mkdirat(int(to.Fd()), statedir.CowMemory, 0o700); err != nil {
		return err
	}
	out, err := OpenMemoryDir(to)
	if err != nil || out == nil {
		return errors.Join(err, errors.New("it was removed"))
	}
	defer out.Close()
	for i, name := range launch.MemoryFiles {
		if i == 0 {
			err = copyRecord(in, out, name)
		} else {
			err = unix.Linkat(int(in.Fd()), name, int(out.Fd()), name, 0)
		}
		if err != nil {
			return fmt.Errorf("copy the memory: %s: %w", name, err)
		}
	}
	return nil
}

// OpenMemoryDir opens the statedir.CowMemory of a directory; nil: it has none.
func OpenMemoryDir(in *os.File) (*os.File, error) {
	fd, err := openat(int(in.Fd()), statedir.CowMemory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), statedir.CowMemory), nil
}

func copyRecord(in, out *os.File, name string) error {
	fd, err := openat(int(in.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(fd), name)
	defer from.Close()
	if fd, err = openat(int(out.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600); err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// openat is openat(2) for a plain name.
func openat(dir int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
}
