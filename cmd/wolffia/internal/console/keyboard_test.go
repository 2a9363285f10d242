package console

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns the two ends of a pseudo-terminal, for the time of the test.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// A ctrl-d that was typed before the terminal is raw ends the input inside as one typed later.
func TestEarlyEnd(t *testing.T) {
	master, slave := terminal(t)
	typed := func(text string) {
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
		ready := []unix.PollFd{{Fd: int32(slave.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 30_000); n != 1 {
			t.Fatalf("poll: %d, %v", n, err)
		}
	}
	c := New(slave, nil, nil)
	typed("one\n\x04")
	restore, err := c.RawMode(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	b := make([]byte, 100)
	for _, tt := range []struct{ typed, want string }{{"", "one\n\x04"}, {"\x00\x04", "\x00\x04"}} {
		if tt.typed != "" {
			typed(tt.typed)
		}
		n, err := c.Typist(nil).Read(b)
		if got := string(b[:n]); err != nil || got != tt.want {
			t.Errorf("Read: got %q, %v; want %q", got, err, tt.want)
		}
	}
}
