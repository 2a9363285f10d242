package echo

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Watches are found by inode and file system; with more lists than are read, any may exist.
func TestFindWatches(t *testing.T) {
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	dir := t.TempDir()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	// A machine may have more watches than are looked at.
	if w := FindWatches(proc, st.Dev); !w.all && w.Has(st.Ino) {
		t.Errorf("a directory that no program watches is in %v", w)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_ATTRIB); err != nil {
		t.Fatal(err)
	}
	if w := FindWatches(proc, st.Dev); !w.Has(st.Ino) || w.None() {
		t.Errorf("inode %d is not in %v", st.Ino, w)
	}
	if w := FindWatches(proc, st.Dev+1); !w.all && w.Has(st.Ino) {
		t.Errorf("inode %d of another file system is in %v", st.Ino, w)
	}
	for name, s := range map[string]scan{"descriptors": {files: 0, list: maxList}, "lists": {files: maxFiles, list: 10}} {
		s.w, s.proc, s.dev = &Watches{inodes: map[uint64]struct{}{}}, int(proc.Fd()), uint64(unix.Major(st.Dev))<<20|uint64(unix.Minor(st.Dev))
		s.process(fmt.Sprint(os.Getpid()))
		if s.files >= 0 && s.list > 0 {
			t.Errorf("%s: the end is not noticed", name)
		}
	}
}
