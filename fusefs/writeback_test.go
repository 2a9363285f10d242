package fusefs

import (
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/wait"

	"golang.org/x/sys/unix"
)

// The data of a large file goes to the disk before a process asks for a sync.
func TestWriteback(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skip("a file system without writeback of its own")
	}
	var w writeback
	piece := make([]byte, writebackStep/2)
	for i := range int64(3) {
		off := i * int64(len(piece))
		if _, err := f.WriteAt(piece, off); err != nil {
			t.Fatal(err)
		}
		if i == 1 && dirty(t, f) == 0 {
			t.Skip("the disk is faster than the test")
		}
		w.wrote(int(f.Fd()), off, off+int64(len(piece)))
		if busy := w.busy.Load(); busy && i != 1 {
			t.Errorf("a write that completes no step starts a writeback: piece %d", i)
		}
		if i == 1 {
			wait.Until(t, "the end of its start", func() bool { return !w.busy.Load() })
			if n := dirty(t, f); n != 0 {
				t.Errorf("%d pages wait for the kernel's own writeback", n)
			}
		}
	}
}

// dirty returns how many pages of the first step of f wait for a writeback.
func dirty(t *testing.T, f *os.File) uint64 {
	t.Helper()
	var stat unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: writebackStep}, &stat, 0)
	if err == unix.ENOSYS || err == unix.EOPNOTSUPP {
		t.Skip("the kernel does not tell how much is dirty")
	}
	if err != nil {
		t.Fatal(err)
	}
	return stat.Dirty
}
