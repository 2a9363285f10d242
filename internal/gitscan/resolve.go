package gitscan

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxFile  = 1 << 20 // bytes of a configuration or .git file that are read
	maxLinks = 40      // symbolic links in one path, as the kernel has it
)

// resolve returns an absolute path with all symbolic links followed, as open(2)
// would, and the links it followed. Names that do not exist stay as they are.
// ok is false if the path goes in circles.
func resolve(path string) (real string, links []string, ok bool) {
	pending := strings.Split(path, "/")
	for len(pending) > 0 {
		name := pending[0]
		pending = pending[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = real[:max(0, strings.LastIndexByte(real, '/'))]
			continue
		}
		next := real + "/" + name
		target, err := os.Readlink(next)
		if err != nil {
			real = next
			continue
		}
		if links = append(links, next); len(links) > maxLinks {
			return "", links, false
		}
		if strings.HasPrefix(target, "/") {
			real = ""
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	if real == "" {
		real = "/"
	}
	return real, links, true
}

// Reach returns where path, an absolute one, leads below root: the file or
// directory, if it is below, whether or not it exists, and the symbolic links below
// root that are followed on the way. All are relative to root, which has no links in
// it.
func Reach(root, path string) []string {
	real, links, ok := resolve(path)
	if ok {
		links = append(links, real)
	}
	var below []string
	for _, p := range links {
		if rel, ok := relative(root, p); ok {
			below = append(below, rel)
		}
	}
	return below
}

// relative returns the path of a below root, or "." for root itself; ok is
// false if it is elsewhere. Both are absolute, clean and resolved.
func relative(root, path string) (rel string, ok bool) {
	if path == root {
		return ".", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// readRegular returns the first maxFile bytes of a regular file; symbolic links
// are followed, as git does. It opens nothing else: a FIFO would block and a
// device may act.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// errNotRegular: something other than a file is where one was expected.
var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file to read.
func openRegular(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(fd)) // the same inode
}
