package beneath

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Create makes a regular file that does not exist yet, open for writing, as Open does. The
// error is an Errno. The caller closes the file.
func Create(dir int, name string, mode uint32) (*os.File, error) {
	fd, err := Open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Readlink returns the text of the symbolic link name in dir; with "" for name, of the link that
// dir is open on. The error is an Errno.
func Readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	return string(buf[:max(n, 0)]), err
}

// NameIn returns the path, without symbolic links, of what fd is open on, relative to the directory
// dir: "" for dir itself. EXDEV: it is not below dir.
func NameIn(dir, fd int) (string, error) {
	root, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir))
	if err != nil {
		return "", err
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	below, is := strings.CutPrefix(path+"/", strings.TrimSuffix(root, "/")+"/")
	if !is {
		return "", unix.EXDEV
	}
	return strings.TrimSuffix(below, "/"), nil
}
