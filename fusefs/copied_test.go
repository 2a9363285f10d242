package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// copiedSetup is a copied tree with everything writable.
func copiedSetup(host func(t *testing.T, dir string)) setup {
	return setup{Copied: true, Timeout: time.Second, Parse: []string{"**=write"}, Host: host}
}

// sees waits until the file called name has this content inside; "" means no file.
func (c *client) sees(t *testing.T, what, name, want string) {
	t.Helper()
	wait.Until(t, what, func() bool {
		got, err := os.ReadFile(c.at(name))
		return want == "" && errnoIn(err) == syscall.ENOENT || want != "" && err == nil && string(got) == want
	})
}

// Acceptance test 5, in the tests TestCopiedHost...: what the host edits shows, or is hidden as
// documented.
func TestCopiedHostWritesInPlace(t *testing.T) {
	mounted(t, copiedSetup(hostHas("plain")), func(t *testing.T, c *client) {
		walk(t, c.dir)
		held, err := os.Open(c.at("plain"))
		ok(t, "open", err)
		defer held.Close()
		write(t, c.host, "plain", "v1")
		c.sees(t, "a write in place", "plain", "v1")
		buf := make([]byte, 2)
		_, err = held.ReadAt(buf, 0)
		if ok(t, "read", err); string(buf) != "v1" {
			t.Errorf("an open descriptor reads %q, want %q", buf, "v1")
		}
	})
}

func TestCopiedHostRemoves(t *testing.T) {
	mounted(t, copiedSetup(hostHas("deleted")), func(t *testing.T, c *client) {
		walk(t, c.dir)
		ok(t, "remove", os.Remove(filepath.Join(c.host, "deleted")))
		c.sees(t, "a removal", "deleted", "")
	})
}

func TestCopiedHostMakesFiles(t *testing.T) {
	mounted(t, copiedSetup(hostHas("plain")), func(t *testing.T, c *client) {
		walk(t, c.dir)
		_, err := os.Stat(c.at("later"))
		wantErrno(t, "stat", err, syscall.ENOENT)
		write(t, c.host, "later", "v1")
		c.sees(t, "a new file that was asked for before", "later", "v1")
	})
}

func TestCopiedHostEditsBesideChanges(t *testing.T) {
	mounted(t, copiedSetup(hostHas("mixed/a", "mixed/b")), func(t *testing.T, c *client) {
		walk(t, c.dir)
		write(t, c.dir, "mixed/a", "inside")
		_, err := os.Stat(c.at("mixed/later"))
		wantErrno(t, "stat", err, syscall.ENOENT)
		write(t, c.host, "mixed/later", "v1")
		c.sees(t, "a new file beside a changed one", "mixed/later", "v1")
		write(t, c.host, "mixed/b", "v1")
		c.sees(t, "an edit beside a changed file", "mixed/b", "v1")
		if names, _ := readNames(c.at("mixed")); fmt.Sprint(names) != "[a b later]" {
			t.Errorf("mixed lists %v, want [a b later]", names)
		}
	})
}

func TestCopiedHostEditsWhatIsChanged(t *testing.T) {
	mounted(t, copiedSetup(hostHas("mine", "mixed/a", "modes")), func(t *testing.T, c *client) {
		walk(t, c.dir)
		write(t, c.dir, "mine", "inside")
		write(t, c.dir, "mixed/a", "inside")
		ok(t, "chmod", os.Chmod(c.at("modes"), 0o600))
		write(t, c.host, "mine", "host")
		write(t, c.host, "mixed/a", "host")
		write(t, c.host, "modes", "host")
		write(t, c.host, "marker", "v1") // everything before is noticed when this is
		c.sees(t, "the marker", "marker", "v1")
		for name, want := range map[string]string{"mine": "inside", "mixed/a": "inside", "modes": "v0"} {
			if got := content(c.at(name)); got != fmt.Sprintf("%d:%s", len(want), want) {
				t.Errorf("%s, which the sandbox has changed: got %s, want %q", name, got, want)
			}
		}
	})
}

func TestCopiedHostSavesByRename(t *testing.T) {
	mounted(t, copiedSetup(hostHas("replaced", "deep/er/f")), func(t *testing.T, c *client) {
		walk(t, c.dir)
		save(t, c.host, "replaced", "v1")
		c.sees(t, "a save by rename", "replaced", "v1")
		for i := range 200 {
			text := fmt.Sprint("save ", i)
			save(t, c.host, "deep/er/f", text)
			c.sees(t, "a save by rename", "deep/er/f", text)
		}
	})
}

// hostHas makes files of that names on the host, each with the content v0.
func hostHas(names ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		for _, name := range names {
			write(t, dir, name, "v0")
		}
	}
}

// save replaces a file as editors do.
func save(t *testing.T, dir, name, text string) {
	t.Helper()
	write(t, dir, name+"~", text)
	if err := os.Rename(filepath.Join(dir, name+"~"), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Acceptance test 6: a directory with changes stays usable, whatever the host does with its lower
// half, and mixes with no other.
func TestCopiedDirectoryMovesOnTheHost(t *testing.T) {
	for _, noWatch := range []bool{false, true} {
		t.Run(fmt.Sprint("NoWatch=", noWatch), func(t *testing.T) {
			s := copiedSetup(func(t *testing.T, dir string) {
				for _, name := range []string{"d/f", "d/sub/f", "r/f", "r/sub/f"} {
					write(t, dir, name, "v0")
				}
			})
			s.NoWatch, s.Timeout = noWatch, 100*time.Millisecond
			mounted(t, s, func(t *testing.T, c *client) {
				host := func(name string) string { return filepath.Join(c.host, name) }
				walk(t, c.dir)
				write(t, c.dir, "d/mine", "inside")
				ok(t, "rename inside", os.Rename(c.at("r"), c.at("renamed")))
				write(t, c.dir, "renamed/mine", "inside")
				walk(t, c.dir)
				for _, d := range []string{"d", "r"} {
					ok(t, "rename on the host", os.Rename(host(d), host(d+".away")))
				}
				for _, name := range []string{"d/f", "d/sub/f", "renamed/f", "renamed/sub/f"} {
					c.sees(t, "what the host has moved away: "+name, name, "")
				}
				for _, name := range []string{"d/mine", "renamed/mine"} {
					c.sees(t, "the sandbox's own: "+name, name, "inside")
				}
				ok(t, "make a file", os.WriteFile(c.at("d/more"), nil, 0o644))
				write(t, c.host, "d/stranger", "v1") // another directory of that name
				write(t, c.host, "r/stranger", "v1")
				c.sees(t, "a new lower half", "d/stranger", "v1")
				c.sees(t, "a new lower half of a renamed directory", "renamed/stranger", "v1")
				c.sees(t, "the old name", "r/stranger", "")
				ok(t, "remove on the host", os.RemoveAll(host("d")))
				c.sees(t, "removed on the host", "d/stranger", "")
				ok(t, "remove", os.RemoveAll(c.at("d")))
				ok(t, "make again", os.Mkdir(c.at("d"), 0o755))
				write(t, c.host, "d/stranger", "v2")
				write(t, c.host, "marker", "v1")
				c.sees(t, "the marker", "marker", "v1")
				if names, err := readNames(c.at("d")); err != nil || len(names) != 0 {
					t.Errorf("a directory of the sandbox's own has %v, %v", names, err)
				}
			})
		})
	}
}

// A directory that the host has removed, which the tree may learn a moment later, is not read, and
// shows what the sandbox has in it. Its listing must not fail with ENOENT: rm -r takes that for
// the directory's absence.
func TestCopiedDirectoryIsRemovedOnTheHost(t *testing.T) {
	s := copiedSetup(func(t *testing.T, dir string) { write(t, dir, "d/f", "v0") })
	s.NoWatch, s.Timeout = true, time.Hour
	mounted(t, s, func(t *testing.T, c *client) {
		walk(t, c.dir)
		write(t, c.dir, "d/mine", "inside")
		ok(t, "remove on the host", os.RemoveAll(filepath.Join(c.host, "d")))
		write(t, c.dir, "d/more", "inside") // the kernel lists the directory again
		if names, err := readNames(c.at("d")); err != nil || fmt.Sprint(names) != "[mine more]" {
			t.Errorf("it has %v, %v", names, err)
		}
		ok(t, "remove", os.RemoveAll(c.at("d")))
		_, err := os.Lstat(c.at("d"))
		wantErrno(t, "look", err, syscall.ENOENT)
	})
}

// Acceptance test 7: rules for the path where the host has a directory bind where the sandbox has
// moved it.
func TestCopiedRulesFollowARename(t *testing.T) {
	s := copiedSetup(func(t *testing.T, dir string) {
		for _, name := range []string{"a/notes", "a/in/deep", "p/q/notes"} {
			write(t, dir, name, "v0")
		}
	})
	s.Timeout = time.Hour
	mounted(t, s, func(t *testing.T, c *client) {
		walk(t, c.dir)
		ok(t, "rename", os.Rename(c.at("a"), c.at("b")))
		ok(t, "rename", os.Rename(c.at("p/q"), c.at("p/z")))
		write(t, c.dir, "b/mine", "inside")
		walk(t, c.dir)
		c.setRules(t, "**=write", "/a/=none", "p/q/notes=read")
		for _, name := range []string{"b", "b/notes", "b/in/deep", "b/mine"} {
			_, err := os.Lstat(c.at(name))
			wantErrno(t, name, err, syscall.ENOENT)
		}
		write(t, c.host, "a/later", "v1")
		_, err := os.Lstat(c.at("b/later"))
		wantErrno(t, "what the host adds", err, syscall.ENOENT)
		if names, _ := readNames(c.dir); fmt.Sprint(names) != "[p]" {
			t.Errorf("the root lists %v", names)
		}
		wantErrno(t, "remove the hidden directory", os.Remove(c.at("b")), syscall.ENOENT)
		wantErrno(t, "make over it", os.Mkdir(c.at("b"), 0o755), syscall.EEXIST)
		wantErrno(t, "write what may only be read", os.WriteFile(c.at("p/z/notes"), nil, 0o644), syscall.EACCES)
		if got := content(c.at("p/z/notes")); got != "2:v0" {
			t.Errorf("what may be read: %s", got)
		}
		c.setRules(t, "**=write")
		c.sees(t, "shown again", "b/later", "v1")
		c.sees(t, "shown again", "b/mine", "inside")
	})
}

// Acceptance test 8: what was done before is done again without a message, with and without
// changes.
func TestCopiedWarmUseSendsNothing(t *testing.T) {
	changes := testenv.Some(5000)
	s := copiedSetup(func(t *testing.T, dir string) {
		for i := range 200 {
			write(t, dir, fmt.Sprintf("d%d/f%d", i%10, i), "x")
		}
	})
	s.Timeout = time.Hour
	mounted(t, s, func(t *testing.T, c *client) {
		check := func(what string) {
			t.Helper()
			wait.Until(t, what, func() bool { // events of the sandbox's own changes come first
				for range 3 {
					walk(t, c.dir)
				}
				before := c.stats(t)
				walk(t, c.dir)
				return len(moved(before, c.stats(t))) == 0
			})
		}
		check("no message without changes")
		for i := range changes {
			write(t, c.dir, fmt.Sprintf("d%d/new%d", i%10, i), "x")
		}
		for i := range 10 {
			ok(t, "remove", os.Remove(c.at(fmt.Sprintf("d%d/f%d", i, i))))
		}
		ok(t, "rename", os.Rename(c.at("d1"), c.at("e1")))
		check("no message with changes")
	})
}

// Acceptance test 11: while a large file is copied others are served, and a failed program leaves
// nothing.
func TestCopiedOthersGoOn(t *testing.T) {
	testenv.Soak(t, "it writes half a gigabyte")
	const size = 256 << 20
	mounted(t, copiedSetup(func(t *testing.T, dir string) {
		write(t, dir, "other", "x")
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = byte(i * i >> 3)
		}
		f, err := os.Create(filepath.Join(dir, "large"))
		ok(t, "create", err)
		defer f.Close()
		for range size / len(block) {
			_, err := f.Write(block)
			ok(t, "write", err)
		}
	}), func(t *testing.T, c *client) {
		walk := make(chan error, 1)
		f, err := os.OpenFile(c.at("large"), os.O_WRONLY, 0)
		ok(t, "open", err)
		defer f.Close()
		go func() {
			_, err := f.WriteAt([]byte("changed"), 0)
			walk <- err
		}()
		done := 0
		for {
			select {
			case err := <-walk:
				ok(t, "write", err)
				if done < 10 {
					t.Errorf("only %d operations meanwhile", done)
				}
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(c.upper("large"), &st))
				if st.Size != size {
					t.Errorf("the copy has %d bytes", st.Size)
				}
				return
			default:
			}
			name := fmt.Sprint("new", done)
			write(t, c.dir, name, "x")
			ok(t, "rename", os.Rename(c.at(name), c.at("moved")))
			if done++; done == 2 {
				c.setRules(t, "**=write", "other=read") // does not wait for the copy, nor others for the rules
			}
		}
	})
}

// Acceptance test 18: the quota bounds the upper layer: copies, whiteouts and new names. What is
// discarded or deleted gives room again.
func TestCopiedQuota(t *testing.T) {
	const limit = 1 << 20
	s := copiedSetup(func(t *testing.T, dir string) {
		for i := range 3 {
			write(t, dir, fmt.Sprint("big", i), string(make([]byte, 400<<10)))
		}
		for i := range 400 {
			write(t, dir, fmt.Sprint("many/", i), "x")
		}
	})
	s.Quota = limit
	mounted(t, s, func(t *testing.T, c *client) {
		for i := range 2 {
			ok(t, "chmod", os.Chmod(c.at(fmt.Sprint("big", i)), 0o600))
		}
		ok(t, "a third copy", os.Truncate(c.at("big2"), 100<<10)) // of what is left of it
		wantErrno(t, "a write beyond the limit", os.WriteFile(c.at("new"), make([]byte, 400<<10), 0o644), syscall.EDQUOT)
		if used := c.usage(t); used.Bytes > limit {
			t.Errorf("the upper layer takes %d bytes of %d", used.Bytes, limit)
		}
		ok(t, "remove", os.Remove(c.at("new")))
		gone, err := 0, error(nil)
		for i := 0; i < 400 && err == nil; i++ {
			if err = os.Remove(c.at(fmt.Sprint("many/", i))); err == nil {
				gone++
			}
		}
		wantErrno(t, "whiteouts beyond the limit", err, syscall.EDQUOT)
		if gone == 0 || gone == 400 {
			t.Errorf("%d whiteouts", gone)
		}
		var st unix.Statfs_t
		ok(t, "statfs", unix.Statfs(c.dir, &st))
		if free := int64(st.Bavail) * st.Frsize; free > 2*backing.ObjectCost {
			t.Errorf("statfs tells of %d bytes", free)
		}
		c.discard(t, "many")
		c.discard(t, "big0")
		if names, _ := readNames(c.at("many")); len(names) != 400 {
			t.Errorf("%d names after the discard", len(names))
		}
		wait.Until(t, "room for what was refused", func() bool {
			return os.WriteFile(c.at("new"), make([]byte, 300<<10), 0o644) == nil
		})
		if used := c.usage(t); used.Bytes > limit {
			t.Errorf("the upper layer takes %d bytes of %d", used.Bytes, limit)
		}
	})
}

// What is discarded is as the host has it. A program keeps what it has open, and its working
// directory.
func TestCopiedDiscard(t *testing.T) {
	s := copiedSetup(func(t *testing.T, dir string) {
		for _, name := range []string{"d/f", "d/sub/f", "d/gone", "r/f"} {
			write(t, dir, name, "v0")
		}
	})
	s.Timeout = time.Hour
	mounted(t, s, func(t *testing.T, c *client) {
		walk(t, c.dir)
		write(t, c.dir, "d/f", "inside")
		write(t, c.dir, "d/sub/f", "inside")
		write(t, c.dir, "d/new/f", "inside")
		ok(t, "remove", os.Remove(c.at("d/gone")))
		ok(t, "rename", os.Rename(c.at("r"), c.at("d/r")))
		held, err := os.OpenFile(c.at("d/f"), os.O_RDWR, 0)
		ok(t, "open", err)
		defer held.Close()
		here, err := os.Open(c.at("d/sub"))
		ok(t, "open", err)
		defer here.Close()
		walk(t, c.dir)
		_, err = os.Stat(c.at("d/gone"))
		wantErrno(t, "stat", err, syscall.ENOENT)

		c.discard(t, "d")
		c.discard(t, "r")
		for name, want := range map[string]string{"d/f": "2:v0", "d/sub/f": "2:v0", "d/gone": "2:v0", "r/f": "2:v0", "d": "<nil> f gone sub"} {
			if got := content(c.at(name)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		for _, name := range []string{"d/new", "d/r"} {
			_, err := os.Lstat(c.at(name))
			wantErrno(t, name, err, syscall.ENOENT)
		}
		buf := make([]byte, 6)
		_, err = held.ReadAt(buf, 0)
		if ok(t, "read what is open", err); string(buf) != "inside" {
			t.Errorf("what is open has %q", buf)
		}
		_, err = held.WriteAt([]byte("other"), 0)
		ok(t, "write what is open", err)
		fd, err := unix.Openat(int(here.Fd()), "f", unix.O_RDONLY, 0)
		ok(t, "use an open directory", err)
		unix.Close(fd)
		write(t, c.dir, "d/f", "again")
		c.sees(t, "changed again", "d/f", "again")
		if got := content(filepath.Join(c.host, "d/f")); got != "2:v0" {
			t.Errorf("the host has %s", got)
		}
	})
}
