package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/internal/test/testenv"
)

// linkedOutside makes n files in the directory d, each with another name outside of the tree: see
// outsideOf.
func linkedOutside(n int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.MkdirAll(outsideOf(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			name := fmt.Sprint("file", i)
			write(t, dir, "d/"+name, "old")
			if err := os.Link(filepath.Join(dir, "d", name), filepath.Join(outsideOf(dir), name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// outsideOf returns a directory beside the host's one of a mount.
func outsideOf(host string) string { return filepath.Join(filepath.Dir(host), "outside") }

// The host changes a file that the sandbox knows by another name, in a directory that is not
// watched: package managers link what they install from a cache.
func TestChangesByOutsideNamesAreNoticed(t *testing.T) {
	for _, copied := range []bool{false, true} {
		t.Run(fmt.Sprint("Copied=", copied), func(t *testing.T) {
			mounted(t, setup{Timeout: time.Hour, Copied: copied, Host: linkedOutside(1)}, func(t *testing.T, c *client) {
				name := c.at("d/file0")
				outside := filepath.Join(outsideOf(c.host), "file0")
				stat := func() string { return attributesOf(name) }
				becomes(t, "before", "3:old", func() string { return content(name) })
				becomes(t, "before", "-rw-r--r--, 2 links, 3 bytes", stat)
				ok(t, "write", os.WriteFile(outside, []byte("new"), 0o644))
				becomes(t, "same size", "3:new", func() string { return content(name) })
				ok(t, "write", os.WriteFile(outside, []byte("longer"), 0o644))
				becomes(t, "longer", "6:longer", func() string { return content(name) })
				ok(t, "chmod", os.Chmod(outside, 0o600))
				becomes(t, "mode", "-rw-------, 2 links, 6 bytes", stat)
				ok(t, "remove", os.Remove(outside))
				becomes(t, "links", "-rw-------, 1 links, 6 bytes", stat)
			})
		})
	}
}

// What is known of a file with other names is asked for once, not after each Timeout.
func TestLinkedFilesStayKnown(t *testing.T) {
	const files = 100
	mounted(t, setup{Timeout: time.Nanosecond, Host: linkedOutside(files)}, func(t *testing.T, c *client) {
		for range 3 {
			walk(t, c.dir)
		}
		before := c.stats(t)
		walk(t, c.dir)
		if n := moved(before, c.stats(t))["GETATTR"]; n > 5 {
			t.Errorf("%d requests for attributes of %d files", n, files)
		}
	})
}

// A file that gets an inode of its own, because the sandbox writes to it, is not watched as the
// former one, whose mark is free.
func TestWrittenLinkIsWatchedAnew(t *testing.T) {
	mounted(t, setup{Timeout: time.Millisecond, Host: linkedOutside(1), After: func(t *testing.T, s *Server, _ []Denial) {
		if w := s.tree.watch; w != nil && w.files > 1 {
			t.Errorf("%d marks for one file", w.files)
		}
	}}, func(t *testing.T, c *client) {
		name, again := c.at("d/file0"), filepath.Join(outsideOf(c.host), "again")
		for range 3 { // it is watched when the kernel has asked twice
			becomes(t, "before", "3:old", func() string { return content(name) })
		}
		ok(t, "write", os.WriteFile(name, []byte("own"), 0o644))
		ok(t, "link", os.Link(filepath.Join(c.host, "d/file0"), again))
		ok(t, "chmod", os.Chmod(filepath.Join(c.host, "d/file0"), 0o600))
		stat := func() string { return attributesOf(name) }
		c.awaitEvents(t) // after which the kernel asks again
		becomes(t, "mode", "-rw-------, 2 links, 3 bytes", stat)
		ok(t, "write", os.WriteFile(again, []byte("longer"), 0o644))
		becomes(t, "by the new name", "-rw-------, 2 links, 6 bytes", stat)
	})
}

// The sandbox has changed the mode of a file only, so its content is still the host's, which may
// change by another name.
func TestBorrowedLinksAreAskedFor(t *testing.T) {
	mounted(t, setup{Timeout: time.Millisecond, Copied: true, Borrow: true, Host: linkedOutside(1)}, func(t *testing.T, c *client) {
		name := c.at("d/file0")
		ok(t, "chmod", os.Chmod(name, 0o600))
		stat := func() string { return attributesOf(name) }
		becomes(t, "before", "-rw-------, 1 links, 3 bytes", stat)
		ok(t, "write", os.WriteFile(filepath.Join(outsideOf(c.host), "file0"), []byte("longer"), 0o644))
		becomes(t, "by the other name", "-rw-------, 1 links, 6 bytes", stat)
	})
}

// A file that gets no mark counts for Timeout.
func TestLinkedFilesWithoutMarks(t *testing.T) {
	mounted(t, setup{Timeout: time.Millisecond, NoMarks: true, Host: linkedOutside(1)}, func(t *testing.T, c *client) {
		stat := func() string { return attributesOf(c.at("d/file0")) }
		becomes(t, "before", "-rw-r--r--, 2 links, 3 bytes", stat)
		ok(t, "write", os.WriteFile(filepath.Join(outsideOf(c.host), "file0"), []byte("longer"), 0o644))
		becomes(t, "by the other name", "-rw-r--r--, 2 links, 6 bytes", stat)
	})
}

// Files take a part of the marks that a user may have.
func TestFewMarksForFiles(t *testing.T) {
	var b backing.FS
	if err := b.Open(nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(b.Proc)
	w := newWatcher(b.Proc)
	if w == nil {
		testenv.Lacks(t, "fanotify", "there can be no group: Linux before 5.13, or too many")
	}
	defer w.group.Free()
	w.maxMarks = func() int { return 1 }
	dir := t.TempDir()
	open := func(name string) (*node, int) {
		write(t, dir, name, "")
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{typ: unix.S_IFREG}
		n.inode.Store(&backing.Identity{})
		return n, fd
	}
	one, first := open("one")
	defer unix.Close(first)
	other, second := open("other")
	defer unix.Close(second)
	w.addFile(one, backing.Identity{}, first)
	w.addFile(other, backing.Identity{}, second)
	if !one.watched.Load() || other.watched.Load() {
		t.Errorf("watched: %v and %v, want the first only", one.watched.Load(), other.watched.Load())
	}
	w.remove(one, first)
	w.addFile(other, backing.Identity{Ino: 1}, second)
	if other.watched.Load() {
		t.Error("watched with the inode of before")
	}
	w.addFile(other, backing.Identity{}, second)
	if one.watched.Load() || !other.watched.Load() {
		t.Errorf("watched: %v and %v, want the second only", one.watched.Load(), other.watched.Load())
	}
}
