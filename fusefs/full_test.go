package fusefs

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"wolffia/internal/test/wait"

	"golang.org/x/sys/unix"
)

// Acceptance test 20: a full disk below the upper layer is ENOSPC inside and loses nothing. What
// is there can be read, deleted as far as no whiteout is needed, and discarded; then there is room
// again. The upper layer is on another file system than the codebase, so that content is copied by
// reading and writing.
func TestCopiedDiskFull(t *testing.T) {
	s := copiedSetup(func(t *testing.T, dir string) {
		for i := range 3 {
			write(t, dir, fmt.Sprint("big", i), string(make([]byte, 700<<10)))
		}
		write(t, dir, "other", "host")
	})
	s.Small = 2 << 20
	mounted(t, s, func(t *testing.T, c *client) {
		change := func(name string) error {
			f, err := os.OpenFile(c.at(name), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("inside"), 0)
			return err
		}
		write(t, c.dir, "mine", "inside")
		ok(t, "the first change", change("big0"))
		ok(t, "the second change", change("big1"))
		wantErrno(t, "a change without room", change("big2"), syscall.ENOSPC)
		var a, b unix.Stat_t
		ok(t, "stat", unix.Stat(c.at("big0"), &a))
		ok(t, "stat", unix.Stat(c.at("big2"), &b))
		if a.Ino == b.Ino || a.Dev != b.Dev {
			t.Errorf("the files are %d and %d on %d and %d", a.Ino, b.Ino, a.Dev, b.Dev)
		}
		filler, err := os.Create(c.at("filler"))
		ok(t, "create", err)
		defer filler.Close()
		for err == nil {
			_, err = filler.Write(make([]byte, 4096))
		}
		wantErrno(t, "fill the disk", err, syscall.ENOSPC)
		data, err := os.ReadFile(c.at("big2"))
		if ok(t, "read", err); len(data) != 700<<10 || data[0] != 0 {
			t.Errorf("what could not be changed has %d bytes", len(data))
		}
		if data, err := os.ReadFile(c.at("big1")); err != nil || string(data[:6]) != "inside" {
			t.Errorf("what was changed: %v", err)
		}
		if got := content(c.at("mine")); got != "6:inside" {
			t.Errorf("what was made: %s", got)
		}
		c.discard(t, "filler")
		ok(t, "remove", os.Remove(c.at("mine")))
		filler.Close()
		c.discard(t, "big0")
		wait.Until(t, "room after the discard", func() bool { return change("big2") == nil })
		if data, err := os.ReadFile(c.at("big0")); err != nil || data[0] != 0 {
			t.Errorf("what was discarded: %v", err)
		}
	})
}
