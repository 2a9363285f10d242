package fusefs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// following returns a watcher that follows a directory.
func following(t *testing.T) (w *watcher, dir *os.File, f *follow) {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	if w = newWatcher(-1); w == nil {
		testenv.Lacks(t, "fanotify", "there can be no group: Linux before 5.13, or too many")
	}
	t.Cleanup(w.group.Free)
	w.inval, w.table = newInvalQueue(nil, nil), newTable(new(node))
	if _, f = w.followDir(int(dir.Fd())); f == nil {
		t.Fatal("the directory cannot be followed")
	}
	return w, dir, f
}

// A change is known as soon as it is done, also one of this process.
func TestFollow(t *testing.T) {
	w, dir, f := following(t)
	name := filepath.Join(dir.Name(), "file")
	for i, change := range []func() error{
		func() error { return os.WriteFile(name, nil, 0o600) },
		func() error { return os.WriteFile(name, []byte("x"), 0o600) },
		func() error { return os.Truncate(name, 0) },
		func() error { return os.Chmod(name, 0o700) },
		func() error { return os.Rename(name, name+"2") },
		func() error { return os.Mkdir(name, 0o700) },
		func() error { return os.Remove(name) },
		func() error { return os.Remove(name + "2") },
	} {
		before := f.events.Load()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if w.drain(); f.events.Load() == before {
			t.Errorf("change %d is not known", i)
		}
	}
}

// The kernel forgets the names of a directory, and so its node, while git still relies on its
// watch.
func TestFollowOutlivesNode(t *testing.T) {
	w, dir, f := following(t)
	n := &node{typ: unix.S_IFDIR}
	w.add(n, int(dir.Fd()))
	w.remove(n, int(dir.Fd()))
	before := f.events.Load()
	if err := os.WriteFile(filepath.Join(dir.Name(), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w.drain(); f.events.Load() == before {
		t.Error("the change is not known")
	}
}

// More events than the kernel keeps mean that all may have changed.
func TestFollowOverflow(t *testing.T) {
	w, dir, _ := following(t)
	other, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, f := w.followDir(int(other.Fd()))
	text, err := os.ReadFile("/proc/sys/fs/fanotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	events, err := strconv.Atoi(string(text[:len(text)-1]))
	if err != nil {
		t.Fatal(err)
	}
	for i := range events + 2 {
		if err := os.WriteFile(filepath.Join(dir.Name(), strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if w.drain(); f.events.Load() == 0 {
		t.Error("the directory in which nothing has changed is taken for unchanged")
	}
}

// What is followed has a limit. A directory that is removed, or need not be followed any more,
// makes room.
func TestFollowsAreFew(t *testing.T) {
	w, first, f := following(t)
	w.maxMarks = func() int { return 2 }
	top := t.TempDir()
	follow := func(name string) (fd int, key string, f *follow) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(filepath.Join(top, name), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		key, f = w.followDir(fd)
		return fd, key, f
	}
	second, _, g := follow("second")
	third, _, none := follow("third")
	unix.Close(third)
	if g == nil || none != nil {
		t.Fatalf("followed: %v and %v, want the second only", g != nil, none != nil)
	}
	unix.Close(second)
	if err := os.Remove(filepath.Join(top, "second")); err != nil {
		t.Fatal(err)
	}
	if w.drain(); !g.over.Load() || f.over.Load() {
		t.Errorf("over: %v and %v, want that of the removed one", f.over.Load(), g.over.Load())
	}
	third, key, h := follow("third")
	defer unix.Close(third)
	if h == nil {
		t.Fatal("there is no room")
	}
	w.unfollow(key, third)
	if err := os.Mkdir(filepath.Join(top, "third/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(w.group.FD, make([]byte, 1000)); !h.over.Load() || err != unix.EAGAIN {
		t.Errorf("over: %v, and %d bytes of events, %v", h.over.Load(), n, err)
	}
	if err := os.WriteFile(filepath.Join(first.Name(), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w.drain(); f.events.Load() == 0 {
		t.Error("a change in the directory that is followed still is not known")
	}
}
