package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	for _, dir := range []string{"root/dir", "outside"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"root/dir/file", "outside/file"} {
		if err := os.WriteFile(filepath.Join(top, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": "../outside", "in": "dir", "root/link": "dir", "root/away": "../outside"} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	slash, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(slash)
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(proc)
	for _, test := range []struct {
		dir   int
		path  string
		flags int
		want  error
	}{
		{dir, ".", unix.O_PATH, nil},
		{dir, "dir", unix.O_RDONLY | unix.O_DIRECTORY, nil},
		{dir, "dir/file", unix.O_RDONLY, nil},
		{dir, "dir/../dir/file", unix.O_RDONLY, nil},
		{dir, "new", unix.O_RDWR | unix.O_CREAT | unix.O_EXCL, nil},
		{dir, "absent", unix.O_RDONLY, unix.ENOENT},
		{dir, "..", unix.O_PATH, unix.EXDEV},
		{dir, "../outside/file", unix.O_RDONLY, unix.EXDEV},
		{dir, root, unix.O_PATH, unix.EXDEV},
		{dir, "link", unix.O_PATH, unix.ELOOP},
		{dir, "link", unix.O_PATH | unix.O_NOFOLLOW, nil},
		{dir, "link/file", unix.O_RDONLY | unix.O_NOFOLLOW, unix.ELOOP},
		{dir, "away/file", unix.O_RDONLY, unix.ELOOP},
		{slash, "proc/version", unix.O_RDONLY, unix.EXDEV},
		{proc, strconv.Itoa(os.Getpid()) + "/cwd", unix.O_PATH, unix.ELOOP}, // a magic link
	} {
		mode := uint32(0)
		if test.flags&unix.O_CREAT != 0 {
			mode = 0o600
		}
		fd, err := Open(test.dir, test.path, test.flags, mode)
		if err != test.want {
			t.Errorf("%s with flags %#x: %v, want %v", test.path, test.flags, err, test.want)
		}
		if err != nil {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: not close-on-exec", test.path)
		}
		unix.Close(fd)
	}
}

// A link anywhere on the way is refused, a mount is not.
func TestOpenPlain(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(top+"/dir", 0o755), os.Symlink("dir", top+"/link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		top + "/dir": nil, "/proc/self/../sys": unix.ELOOP, "/proc/sys": nil,
		top + "/link": unix.ELOOP, top + "/link/..": unix.ELOOP, top + "/absent": unix.ENOENT,
	} {
		f, err := OpenPlain(path, unix.O_PATH|unix.O_DIRECTORY)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			_ = f.Close()
		}
	}
}

// What is no regular file, or too long, is not read, and no reader waits for it.
func TestReadFile(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(os.WriteFile(root+"/four", []byte("four"), 0o644), os.Symlink("four", root+"/link"),
		unix.Mkfifo(root+"/fifo", 0o644))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, test := range []struct {
		name string
		most int64
		text string
		want error
	}{
		{"four", 4, "four", nil},
		{"four", 3, "", unix.EFBIG},
		{"link", 4, "", unix.ELOOP},
		{"fifo", 4, "", unix.EINVAL},
		{".", 4, "", unix.EINVAL},
		{"absent", 4, "", unix.ENOENT},
		{"../four", 4, "", unix.EXDEV},
	} {
		text, err := ReadFile(int(dir.Fd()), test.name, test.most)
		if string(text) != test.text || !errors.Is(err, test.want) {
			t.Errorf("%s, %d bytes: %q, %v; want %q, %v", test.name, test.most, text, err, test.text, test.want)
		}
	}
}

// What another process moves away meanwhile is absent, and not another mount.
func TestOpenWhileItMoves(t *testing.T) {
	var dirs [2]int
	for i := range dirs {
		fd, err := unix.Open(t.TempDir(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		dirs[i] = fd
	}
	if err := unix.Mkdirat(dirs[0], "x", 0o755); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	moved := make(chan error)
	go func() { // ends at stop
		var err error
		for i := 0; err == nil && !stop.Load(); i++ {
			err = unix.Renameat(dirs[i%2], "x", dirs[1-i%2], "x")
		}
		moved <- err
	}()
	for range 30_000 {
		fd, err := Open(dirs[0], "x", unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err == nil {
			unix.Close(fd)
		} else if err != unix.ENOENT {
			t.Errorf("got %v, want ENOENT", err)
			break
		}
	}
	stop.Store(true)
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
}
