package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// becomes waits until look, which uses the mount, returns want. Without an invalidation the kernel
// would keep the old result for an hour.
func becomes(t *testing.T, what, want string, look func() string) {
	t.Helper()
	wait.Equal(t, what, want, look)
}

// content returns what is at a path: the bytes of a file, the names in a
// directory, the target of a link, or the errno.
func content(path string) string {
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return errnoIn(err).Error()
	case st.IsDir():
		entries, err := os.ReadDir(path)
		names := fmt.Sprint(err)
		for _, e := range entries {
			names += " " + e.Name()
		}
		return names
	case st.Mode()&fs.ModeSymlink != 0:
		target, _ := os.Readlink(path)
		return "-> " + target
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return errnoIn(err).Error()
	}
	return fmt.Sprintf("%d:%s", st.Size(), b)
}

// attributesOf returns the mode of the file at a path, how many names it has, and its size, or why
// they are not known. Unlike content it does not read the file, after which the kernel asks for
// the attributes again.
func attributesOf(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v, %d links, %d bytes", st.Mode(), st.Sys().(*syscall.Stat_t).Nlink, st.Size())
}

// awaitEvents waits until the kernel knows of all earlier changes. Events come in order: once the
// last has come, so have all others.
func (c *client) awaitEvents(t *testing.T) {
	t.Helper()
	mark := c.at("mark")
	becomes(t, "mark", syscall.ENOENT.Error(), func() string { return content(mark) }) // the kernel knows that it does not exist
	write(t, c.host, "mark", "1")
	becomes(t, "mark", "1:1", func() string { return content(mark) })
}

// A directory may get a new node before its old one is backing.Forgotten. In either order, the new node
// gets events if it is marked as watched.
func TestOneMarkForADirectory(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	fd := int(dir.Fd())
	w := newWatcher(-1)
	if w == nil {
		testenv.Lacks(t, "fanotify", "there can be no group: Linux before 5.13, or too many")
	}
	defer w.group.Free()
	for i := range 2000 {
		before, after := &node{typ: unix.S_IFDIR}, &node{typ: unix.S_IFDIR}
		w.add(before, fd)
		both := make(chan struct{})
		go func() {
			defer close(both)
			w.remove(before, fd)
		}()
		w.add(after, fd)
		<-both
		marks, err := os.ReadFile(fmt.Sprint("/proc/self/fdinfo/", w.group.FD))
		if err != nil || !after.watched.Load() || len(w.nodes) != 1 || len(w.keys) != 1 || bytes.Count(marks, []byte("fanotify ino:")) != 1 {
			t.Fatalf("round %d: %v, watched: %v, %d and %d known, %s", i, err, after.watched.Load(), len(w.nodes), len(w.keys), marks)
		}
		w.remove(after, fd)
	}
}

// Events are not waited for by Go's network poller: it would wake a thread for each, also for
// those of the sandbox's own changes, which are read together after a pause.
func TestEventsWakeNoPoller(t *testing.T) {
	w := newWatcher(-1)
	if w == nil {
		testenv.Lacks(t, "fanotify", "there can be no group: Linux before 5.13, or too many")
	}
	go w.group.Run() // ends with close
	defer w.close()
	r, wr, err := os.Pipe() // what the poller does wait for
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer wr.Close()
	polled := func(fd int) (found bool) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range fds {
			if kind, _ := os.Readlink("/proc/self/fd/" + e.Name()); kind == "anon_inode:[eventpoll]" {
				info, _ := os.ReadFile("/proc/self/fdinfo/" + e.Name())
				found = found || regexp.MustCompile(fmt.Sprintf(`(?m)^tfd: +%d `, fd)).Match(info)
			}
		}
		return found
	}
	conn, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	conn.Control(func(fd uintptr) {
		if !polled(int(fd)) {
			t.Error("the poller does not wait for a pipe either")
		}
	})
	if polled(w.group.FD) {
		t.Error("the poller waits for events")
	}
}

// What the host changes is seen inside though the kernel may cache for an
// hour, whatever it had in its caches before.
func TestHostChangesAreNoticed(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Hour,
		Host: func(t *testing.T, dir string) {
			write(t, dir, "d/file", "old")
			write(t, dir, "d/other", "other")
			write(t, dir, "d/sub/deep/leaf", "leaf")
			write(t, dir, "e/kept", "kept")
		},
	}, func(t *testing.T, c *client) {
		host := func(name string) string { return filepath.Join(c.host, name) }
		absent := syscall.ENOENT.Error()
		warm := func() {
			for _, name := range []string{".", "d", "e", "d/file", "d/other", "d/sub", "d/sub/deep", "d/sub/deep/leaf", "d/new", "top"} {
				content(c.at(name))
				content(c.at(name))
			}
		}
		check := func(what, name, want string, change func() error) {
			t.Helper()
			warm()
			ok(t, what, change())
			becomes(t, what, want, func() string { return content(c.at(name)) })
		}
		put := func(name, s string) func() error {
			return func() error { return os.WriteFile(host(name), []byte(s), 0o644) }
		}
		check("same size", "d/file", "3:new", put("d/file", "new"))
		check("longer", "d/file", "6:longer", put("d/file", "longer"))
		check("a name that was absent", "d/new", "1:n", put("d/new", "n"))
		check("a name in the root", "top", "1:t", put("top", "t"))
		check("listing", "d", "<nil> file listed new other sub", put("d/listed", ""))
		check("deleted", "d/new", absent, func() error { return os.Remove(host("d/new")) })
		check("listing after", "d", "<nil> file other sub", func() error { return os.Remove(host("d/listed")) })
		check("replaced", "d/file", "8:replaced", func() error {
			return errors.Join(put("tmp", "replaced")(), os.Rename(host("tmp"), host("d/file")))
		})
		check("file to link", "d/other", "-> file", func() error {
			return errors.Join(os.Remove(host("d/other")), os.Symlink("file", host("d/other")))
		})
		check("link to directory", "d/other", "<nil>", func() error {
			return errors.Join(os.Remove(host("d/other")), os.Mkdir(host("d/other"), 0o755))
		})
		check("directory to file", "d/other", "1:f", func() error {
			return errors.Join(os.Remove(host("d/other")), put("d/other", "f")())
		})
		check("moved directory, old place", "d/sub/deep/leaf", absent, func() error { return os.Rename(host("d/sub"), host("e/sub")) })
		check("moved directory, new place", "e/sub/deep/leaf", "4:LEAF", put("e/sub/deep/leaf", "LEAF"))
		check("exchange", "d", "<nil> kept sub", func() error {
			return unix.Renameat2(unix.AT_FDCWD, host("d"), unix.AT_FDCWD, host("e"), unix.RENAME_EXCHANGE)
		})
		warm()
		ok(t, "chmod", os.Chmod(host("e/file"), 0o600))
		becomes(t, "chmod", "-rw-------, 1 links, 8 bytes", func() string { return attributesOf(c.at("e/file")) })
	})
}

// A process that has a file open reads the old content after the host replaces it, also at the
// first use.
func TestReplacedFileStaysOpen(t *testing.T) {
	mounted(t, setup{
		Host: func(t *testing.T, dir string) { write(t, dir, "d/file", "old") },
	}, func(t *testing.T, c *client) {
		content(c.at("d")) // the kernel knows the file by the listing
		f, err := os.Open(c.at("d/file"))
		ok(t, "open", err)
		defer f.Close()
		write(t, c.host, "tmp", "new")
		ok(t, "rename", os.Rename(filepath.Join(c.host, "tmp"), filepath.Join(c.host, "d/file")))
		got := make([]byte, 10)
		n, err := f.Read(got)
		ok(t, "read", err)
		if string(got[:n]) != "old" {
			t.Errorf("read %q", got[:n])
		}
		becomes(t, "the name", "3:new", func() string { return content(c.at("d/file")) })
	})
}

// What is changed inside is not taken for a change by the host, which would
// empty the caches.
func TestOwnChangesKeepTheCachesWarm(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Hour,
		Host: func(t *testing.T, dir string) {
			for i := range 20 {
				write(t, dir, fmt.Sprintf("d/file%d", i), "x")
			}
		},
	}, func(t *testing.T, c *client) {
		for range 3 {
			walk(t, c.dir)
		}
		for i := range 20 {
			ok(t, "write", os.WriteFile(c.at(fmt.Sprintf("d/own%d", i)), []byte("y"), 0o644))
		}
		c.awaitEvents(t)
		if n := c.stats(t).Changes; n > 3 {
			t.Errorf("%d changes from outside, want create, write and close", n)
		}
	})
}
