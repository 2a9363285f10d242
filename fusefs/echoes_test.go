package fusefs

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/echo"
	"wolffia/internal/test/wait"
)

// A listener is an inotify instance, and all events so far.
type listener struct {
	fd    int
	names map[int32]string
	seen  []string
}

// listen watches paths in the mount.
func (c *client) listen(t *testing.T, paths ...string) *listener {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	l := &listener{fd: fd, names: map[int32]string{}}
	for _, p := range paths {
		content(c.at(p)) // as those that watch do
		wd, err := unix.InotifyAddWatch(fd, c.at(p), unix.IN_ALL_EVENTS&^(unix.IN_ACCESS|unix.IN_OPEN|unix.IN_CLOSE_NOWRITE))
		if err != nil {
			t.Fatal(err)
		}
		l.names[int32(wd)] = p
	}
	return l
}

// eventNames are the events that tests expect (inotify(7)).
var eventNames = []struct {
	mask uint32
	name string
}{
	{unix.IN_MODIFY, "modify"},
	{unix.IN_ATTRIB, "attrib"},
	{unix.IN_CLOSE_WRITE, "close_write"},
	{unix.IN_CREATE, "create"},
	{unix.IN_DELETE, "delete"},
	{unix.IN_DELETE_SELF, "delete_self"},
	{unix.IN_ISDIR, "isdir"},
	{unix.IN_IGNORED, "ignored"},
}

// read adds the events that have come, without repetitions.
func (l *listener) read(t *testing.T) {
	t.Helper()
	for buf := make([]byte, 64<<10); ; {
		n, err := unix.Read(l.fd, buf)
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			l.add(b[:size])
			b = b[size:]
		}
	}
}

// add adds an event.
func (l *listener) add(event []byte) {
	text := l.names[int32(binary.NativeEndian.Uint32(event))]
	if name := unix.ByteSliceToString(event[unix.SizeofInotifyEvent:]); name != "" {
		text += ":" + name
	}
	for _, e := range eventNames {
		if binary.NativeEndian.Uint32(event[4:])&e.mask != 0 {
			text += " " + e.name
		}
	}
	if !slices.Contains(l.seen, text) {
		l.seen = append(l.seen, text)
	}
}

// An echoing client repeats the host's changes as the shim does.
type echoing struct {
	*client
	root  *os.File
	all   []echo.Change // so far
	marks int           // of settle
}

func newEchoing(t *testing.T, c *client) *echoing {
	t.Helper()
	runtime.LockOSThread() // until the test ends
	root, err := os.Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &echoing{client: c, root: root}
}

// fetch returns the host's changes.
func (e *echoing) fetch(t *testing.T) *echo.Batch {
	t.Helper()
	if err := json.NewEncoder(e.conn).Encode("changes"); err != nil {
		t.Fatal(err)
	}
	b := request[*echo.Batch](t, e.client, unix.Gettid())
	e.all = append(e.all, b.Changes...)
	return b
}

// repeat repeats the host's changes.
func (e *echoing) repeat(t *testing.T) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(e.root.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	for b := e.fetch(t); ; b = e.fetch(t) {
		if err := echo.Repeat(int(e.root.Fd()), b, echo.FindWatches(proc, st.Dev)); err != nil {
			t.Fatal(err)
		}
		if !b.More {
			return
		}
	}
}

// settle repeats what the host has changed so far: events come in order.
func (e *echoing) settle(t *testing.T) {
	t.Helper()
	e.marks++
	mark := fmt.Sprint("mark", e.marks)
	ok(t, "mkdir", os.Mkdir(filepath.Join(e.host, mark), 0o755))
	wait.Equal(t, "the last change is seen", true, func() bool {
		e.repeat(t)
		return slices.ContainsFunc(e.all, func(c echo.Change) bool { return string(c.Name) == mark })
	})
}

// hostState returns all that a change of the tree on the host would change.
func hostState(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		fmt.Fprintln(&text, path, st.Ino, st.Mode, st.Nlink, st.Uid, st.Size, st.Mtim, st.Ctim)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// The host's changes wake programs that watch, with the events that they would get without a mount,
// and repeating them changes nothing on the host.
func TestHostChangesWakeWatchers(t *testing.T) {
	host := func(t *testing.T, dir string) {
		for _, name := range []string{"d/file", "d/other", "d/sub/in", "d/script", "d/fixed"} {
			write(t, dir, name, "1")
		}
		ok(t, "chmod", os.Chmod(filepath.Join(dir, "d/script"), 0o755))
	}
	steps := []struct {
		name string
		do   func(at func(string) string) error
		want []string
	}{
		{
			"write", func(at func(string) string) error { return os.WriteFile(at("d/file"), []byte("22"), 0o600) },
			[]string{"d:file modify", "d/file modify", "d:file close_write", "d/file close_write"},
		},
		{
			"write a program", func(at func(string) string) error { return os.WriteFile(at("d/script"), []byte("22"), 0o600) },
			[]string{"d:script modify"},
		},
		{
			"write a file that is read-only inside", func(at func(string) string) error { return os.WriteFile(at("d/fixed"), []byte("22"), 0o600) },
			[]string{"d:fixed modify"},
		},
		{
			"chmod", func(at func(string) string) error { return os.Chmod(at("d/other"), 0o600) },
			[]string{"d:other attrib"},
		},
		{"replace", func(at func(string) string) error {
			if err := os.WriteFile(at("temporary"), []byte("333"), 0o600); err != nil {
				return err
			}
			return os.Rename(at("temporary"), at("d/file"))
		}, []string{"d/file delete_self", "d/file ignored", "d:file create", "d:file modify", "d:file close_write"}},
		{
			"create", func(at func(string) string) error { return os.WriteFile(at("d/new"), []byte("1"), 0o600) },
			[]string{"d:new create", "d:new modify", "d:new close_write"},
		},
		{
			"rename", func(at func(string) string) error { return os.Rename(at("d/new"), at("d/newer")) },
			[]string{"d:new delete", "d:newer create", "d:newer modify", "d:newer close_write"},
		},
		{
			"remove", func(at func(string) string) error { return os.Remove(at("d/newer")) },
			[]string{"d:newer delete"},
		},
		{
			"symlink", func(at func(string) string) error { return os.Symlink("file", at("d/link")) },
			[]string{"d:link create"},
		},
		{
			"mkdir", func(at func(string) string) error { return os.Mkdir(at("d/dir"), 0o700) },
			[]string{"d:dir create isdir"},
		},
		{
			"rmdir", func(at func(string) string) error { return os.Remove(at("d/dir")) },
			[]string{"d:dir delete isdir"},
		},
		{
			"remove a watched directory", func(at func(string) string) error { return os.RemoveAll(at("d/sub")) },
			[]string{"d/sub delete_self", "d/sub ignored", "d:sub delete isdir"},
		},
	}
	for _, copied := range []bool{false, true} {
		t.Run(fmt.Sprintf("copied=%v", copied), func(t *testing.T) {
			mounted(t, setup{Host: host, Echo: true, Copied: copied, Parse: []string{"**=write", "fixed=read"}}, func(t *testing.T, c *client) {
				e := newEchoing(t, c)
				for _, s := range steps {
					e.settle(t)
					l := c.listen(t, "d", "d/file", "d/sub")
					ok(t, s.name, s.do(func(p string) string { return filepath.Join(c.host, p) }))
					before := hostState(t, c.host)
					wait.Equal(t, s.name, strings.Join(s.want, "\n"), func() string {
						e.repeat(t)
						l.read(t)
						// Of a directory that is removed with its files they are seen if a batch ends between.
						all := slices.DeleteFunc(slices.Clone(l.seen), func(s string) bool { return s == "d/sub:in delete" })
						return strings.Join(all, "\n")
					})
					if after := hostState(t, c.host); after != before {
						t.Errorf("%s: the host has changed:\n%s\nbefore:\n%s", s.name, after, before)
					}
				}
			})
		})
	}
}

// Changes of hidden names are not repeated, nor those in hidden directories.
func TestHiddenHostChanges(t *testing.T) {
	mounted(t, setup{
		Host: func(t *testing.T, dir string) {
			write(t, dir, "d/old.none", "1")
			write(t, dir, "dir.none/file", "1")
			write(t, dir, "later/file", "1")
		},
		Echo: true, Parse: []string{"**=write", "*.none=none", "dir.none/=none"},
	}, func(t *testing.T, c *client) {
		e := newEchoing(t, c)
		l := c.listen(t, "d", "later", ".")
		c.setRules(t, "**=write", "*.none=none", "dir.none/=none", "later/=none")
		host := func(name string) string { return filepath.Join(c.host, name) }
		write(t, c.host, "d/new.none", "1")
		write(t, c.host, "d/new.none", "2")
		write(t, c.host, "dir.none/new", "1")
		write(t, c.host, "later/file", "2")
		ok(t, "chmod", os.Chmod(host("d/new.none"), 0o600))
		ok(t, "rename", os.Rename(host("d/new.none"), host("d/newer.none")))
		ok(t, "remove", os.Remove(host("d/newer.none")))
		ok(t, "remove", os.Remove(host("d/old.none")))
		ok(t, "mkdir", os.Mkdir(host("new.none"), 0o755))
		ok(t, "remove", os.RemoveAll(host("dir.none")))
		ok(t, "mkdir", os.Mkdir(host("last"), 0o755)) // events come in order
		wait.Equal(t, "events", ".:last create isdir", func() string {
			e.repeat(t)
			l.read(t)
			return strings.Join(l.seen, "\n")
		})
		for _, change := range e.all {
			if string(change.Name) != "last" {
				t.Errorf("a change of %s/%s", change.Dir, change.Name)
			}
		}
	})
}

// The thread that repeats changes can change nothing, and others notice nothing of it.
func TestRepeatingThreadChangesNothing(t *testing.T) {
	mounted(t, setup{
		Host: func(t *testing.T, dir string) { write(t, dir, "file", "1") },
		Echo: true, Parse: []string{"**=write"},
	}, func(t *testing.T, c *client) {
		e := newEchoing(t, c)
		c.listen(t, ".")
		before := ""
		wait.Equal(t, "a change", true, func() bool {
			write(t, c.host, "made", "1")
			before = hostState(t, c.host)
			return len(e.fetch(t).Changes) > 0
		})
		if _, err := os.Stat(c.at("made")); !os.IsNotExist(err) { // what is to be repeated was not done yet
			t.Errorf("stat what was made: %v", err)
		}
		fd, err := unix.Open(c.at("file"), unix.O_RDWR, 0)
		ok(t, "open", err)
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte("2"))
		for _, x := range []struct {
			op  string
			err error
		}{
			{"write", err},
			{"fallocate", unix.Fallocate(fd, 0, 0, 1<<20)},
			{"create", os.WriteFile(c.at("other"), nil, 0o600)},
			{"mkdir", os.Mkdir(c.at("other"), 0o700)},
			{"mknod", unix.Mknod(c.at("other"), unix.S_IFIFO, 0)},
			{"symlink", os.Symlink("file", c.at("other"))},
			{"link", os.Link(c.at("file"), c.at("other"))},
			{"rename", os.Rename(c.at("file"), c.at("other"))},
			{"unlink", unix.Unlink(c.at("file"))},
		} {
			wantErrno(t, x.op, x.err, syscall.EROFS)
		}
		ok(t, "truncate", os.Truncate(c.at("file"), 0)) // without effect
		ok(t, "chmod", os.Chmod(c.at("file"), 0))
		ok(t, "utimes", os.Chtimes(c.at("file"), time.Unix(1, 0), time.Unix(1, 0)))
		if after := hostState(t, c.host); after != before {
			t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
		}
		other := make(chan error)
		go func() { // ends when another thread has used the tree
			runtime.LockOSThread()
			_, err := os.Stat(c.at("made"))
			if err == nil {
				err = unix.Mkdir(c.at("made"), 0o700)
			}
			other <- err
		}()
		wantErrno(t, "make a name that exists, by another thread", <-other, syscall.EEXIST)
	})
}

// Of a storm some names are repeated, and of the others the directory.
func TestStormOfHostChanges(t *testing.T) {
	mounted(t, setup{
		Host: func(t *testing.T, dir string) { write(t, dir, "d/file", "1") },
		Echo: true, Parse: []string{"**=write"},
	}, func(t *testing.T, c *client) {
		e := newEchoing(t, c)
		l := c.listen(t, "d")
		for i := range maxNoted + 100 {
			ok(t, "mkdir", os.Mkdir(filepath.Join(c.host, fmt.Sprint("d/", i)), 0o755)) // one event each
		}
		wait.Equal(t, "the server has all", true, func() bool { return c.stats(t).Changes >= maxNoted+100 })
		e.repeat(t)
		l.read(t)
		if want := "d attrib isdir"; !slices.Contains(l.seen, want) {
			t.Errorf("%d events, want one that is %q", len(l.seen), want)
		}
		if n := len(e.all); n > maxNoted+1 {
			t.Errorf("%d changes", n)
		}
	})
}

// A storm in hidden names tells nothing, and leaves the visible ones their room.
func TestHiddenStormOfHostChanges(t *testing.T) {
	mounted(t, setup{
		Host: func(t *testing.T, dir string) { write(t, dir, "d/file", "1") },
		Echo: true, Parse: []string{"**=write", "*.none=none"},
	}, func(t *testing.T, c *client) {
		e := newEchoing(t, c)
		l := c.listen(t, "d")
		for i := range maxNoted + 100 {
			ok(t, "mkdir", os.Mkdir(filepath.Join(c.host, fmt.Sprintf("d/%d.none", i)), 0o755))
		}
		ok(t, "mkdir", os.Mkdir(filepath.Join(c.host, "d/last"), 0o755)) // events come in order
		wait.Equal(t, "events", "d:last create isdir", func() string {
			e.repeat(t)
			l.read(t)
			return strings.Join(l.seen, "\n")
		})
	})
}
