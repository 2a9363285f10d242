package fusefs

import (
	"os"
	"sync"
	"testing"

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
	s := new(backing)
	if err = s.init(nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s.proc)
	fd, errno := openBeneath(int(dir.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer unix.Close(fd)
	defer s.chmodFD(fd, 0o700)
	const rounds = 300
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range rounds {
				errno := s.asOwner(fd, func() error { return errnoOrNil(s.eachName(fd, nil)) })
				if errno != 0 {
					t.Errorf("a use: %v", errno)
					return
				}
			}
		})
	}
	for i := range uint32(rounds) {
		mode := i % 2 * 0o40
		if errno := s.chmodFD(fd, mode); errno != 0 {
			t.Errorf("chmod: %v", errno)
		}
		s.modeMu.Lock() // no use is in progress
		o, errno := s.stat(fdName{fd: fd})
		s.modeMu.Unlock()
		if errno != 0 || uint32(o.Mode)&0o777 != mode {
			t.Errorf("the mode is %#o, %v; want %#o", o.Mode, errno, mode)
		}
	}
	users.Wait()
}

func errnoOrNil(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
