package proc

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A File is the identity of a file: a pipe or FIFO that a process writes to.
type File struct{ dev, ino uint64 }

// FileOf returns the file of a stat.
func FileOf(st *unix.Stat_t) File { return File{st.Dev, st.Ino} }

// Holds reports whether a process has one of the files open. The error is
// fs.ErrPermission for a process that is not dumpable, which every process is for a
// moment while it executes a program.
func Holds(pid int, files []File) (bool, error) {
	if len(files) == 0 {
		return false, nil
	}
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return false, nil // the process has ended
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	fds, _ := dir.Readdirnames(-1)
	for _, fd := range fds {
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), fd, &st, 0); errors.Is(err, fs.ErrPermission) {
			return false, err
		} else if err == nil && slices.Contains(files, FileOf(&st)) {
			return true, nil
		}
	}
	return false, nil
}
