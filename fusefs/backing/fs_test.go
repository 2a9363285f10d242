package backing

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Several requests at once use a directory of the server's that the sandbox has taken all
// permissions from, while another sets its mode.
func TestAsOwnerAtOnce(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := new(FS)
	if err = s.Open(nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s.Proc)
	fd, errno := OpenBeneath(int(dir.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer unix.Close(fd)
	defer s.ChmodFD(fd, 0o700)
	const rounds = 300
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range rounds {
				errno := s.AsOwner(fd, func() error {
					if errno := s.EachName(fd, nil); errno != 0 {
						return errno
					}
					return nil
				})
				if errno != 0 {
					t.Errorf("a use: %v", errno)
					return
				}
			}
		})
	}
	for i := range uint32(rounds) {
		mode := i % 2 * 0o40
		if errno := s.ChmodFD(fd, mode); errno != 0 {
			t.Errorf("chmod: %v", errno)
		}
		s.modeMu.Lock() // no use is in progress
		o, errno := s.Stat(At{FD: fd})
		s.modeMu.Unlock()
		if errno != 0 || uint32(o.Mode)&0o777 != mode {
			t.Errorf("the mode is %#o, %v; want %#o", o.Mode, errno, mode)
		}
	}
	users.Wait()
}

// A copy that takes too long is given up.
func TestCopyLimit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b FS
	if err := b.Open(nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(b.Proc)
	from, err := unix.Open(filepath.Join(dir, "file"), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(from)
	for limit, want := range map[time.Duration]syscall.Errno{time.Hour: 0, -time.Second: syscall.EFBIG} {
		to, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC) // of another file system, which cannot clone
		if err != nil {
			t.Fatal(err)
		}
		b.copyLimit = limit
		if errno := b.fillContent(to, from, 7); errno != want {
			t.Errorf("with %v: %v, want %v", limit, errno, want)
		}
		unix.Close(to)
	}
}
