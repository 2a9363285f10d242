package echo

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// Watches are the inodes of one file system that programs watch with inotify(7).
type Watches struct {
	inodes map[uint64]struct{}
	all    bool // there may be others
}

// Has reports whether a program may watch the inode with that number.
func (w *Watches) Has(inode uint64) bool {
	_, ok := w.inodes[inode]
	return ok || w.all
}

// None reports whether no program watches anything.
func (w *Watches) None() bool { return len(w.inodes) == 0 && !w.all }

// Bounds of one look: what is inside is hostile. A list of watches has some 90 bytes for each.
const (
	maxFiles = 1 << 16 // descriptors
	maxList  = 8 << 20 // bytes of all lists
)

// FindWatches finds the watches of the processes in dir, a /proc (proc_pid_fdinfo(5)), on the file
// system dev, as stat(2) numbers it. It takes some microseconds for each open file of them. If they
// have more than it looks at, any inode may be watched.
func FindWatches(dir *os.File, dev uint64) *Watches {
	w := &Watches{inodes: map[uint64]struct{}{}}
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return w
	}
	own := os.NewFile(uintptr(fd), "proc") // others read dir too
	defer own.Close()
	pids, _ := proc.PIDs(own)
	kernels := uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev))
	s := scan{w: w, proc: fd, dev: kernels, files: maxFiles, list: maxList}
	for _, pid := range pids {
		s.process(strconv.Itoa(pid))
	}
	w.all = s.files < 0 || s.list <= 0
	return w
}

// A scan is one look.
type scan struct {
	w     *Watches
	proc  int
	dev   uint64 // as the kernel prints it
	files int    // descriptors that are still looked at
	list  int64  // bytes that are still read
}

// process adds the watches of a process. One that has ended, or is not dumpable, has none: PID 1.
func (s *scan) process(pid string) {
	fd, err := unix.Openat(s.proc, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), "fd")
	defer dir.Close()
	for s.files >= 0 {
		names, err := dir.Readdirnames(1 << 10)
		for _, name := range names {
			const inotify = "anon_inode:inotify"
			var target [len(inotify) + 1]byte
			n, err := unix.Readlinkat(fd, name, target[:])
			if err == nil && string(target[:n]) == inotify {
				s.instance(pid + "/fdinfo/" + name)
			}
		}
		if s.files -= len(names); err != nil {
			return
		}
	}
}

// instance adds the watches that a file in fdinfo lists.
func (s *scan) instance(name string) {
	fd, err := unix.Openat(s.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: s.list}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		if inode, ok := s.watch(lines.Text()); ok {
			s.w.inodes[inode] = struct{}{}
		}
	}
	s.list = limited.N
}

// watch returns the inode of a line such as "inotify wd:1 ino:e0004b sdev:800013 mask:fc6 ...", if
// it is of the file system.
func (s *scan) watch(line string) (inode uint64, ok bool) {
	words, isWatch := strings.CutPrefix(line, "inotify ")
	dev := uint64(0)
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, ":")
		switch key {
		case "ino":
			inode, _ = strconv.ParseUint(value, 16, 64)
		case "sdev":
			dev, _ = strconv.ParseUint(value, 16, 64)
		}
	}
	return inode, isWatch && dev == s.dev
}
