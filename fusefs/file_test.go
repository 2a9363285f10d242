package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFilesBehave(t *testing.T) {
	mounted(t, setup{}, func(t *testing.T, c *client) {
		for name, test := range map[string]func(*testing.T, *client){
			"unlinked":  unlinkedStaysOpen,
			"readonly":  readOnlyModeStaysWritable,
			"append":    appendsMeet,
			"umask":     modesAreExact,
			"mmap":      mapped,
			"names":     anyName,
			"times":     times,
			"sparse":    sparse,
			"copy":      copyRange,
			"big":       bigWrite,
			"trunc":     truncateOnOpen,
			"deepdirs":  deepDirectories,
			"manynames": manyNames,
		} {
			t.Run(name, func(t *testing.T) { test(t, c) })
		}
	})
}

func unlinkedStaysOpen(t *testing.T, c *client) {
	p := c.at("unlinked")
	write(t, c.dir, "unlinked", "before")
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	ok(t, "open", err)
	defer f.Close()
	ok(t, "unlink", unix.Unlink(p))
	write(t, c.dir, "unlinked", "another")
	_, err = f.WriteAt([]byte("after!"), 0)
	ok(t, "write", err)
	got, err := io.ReadAll(f)
	if string(got) != "after!" {
		t.Errorf("read %q, %v", got, err)
	}
	ok(t, "truncate", f.Truncate(1))
	ok(t, "chmod", f.Chmod(0o600))
	fi, err := f.Stat()
	ok(t, "stat", err)
	if fi.Size() != 1 {
		t.Errorf("size %d, want 1", fi.Size())
	}
	if got, _ := os.ReadFile(p); string(got) != "another" {
		t.Errorf("the new file holds %q", got)
	}
}

func readOnlyModeStaysWritable(t *testing.T, c *client) {
	f, err := os.OpenFile(c.at("created444"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o444)
	ok(t, "create", err)
	_, err = f.WriteString("written")
	ok(t, "write", err)
	f.Close()
	write(t, c.dir, "chmod444", "x")
	f, err = os.OpenFile(c.at("chmod444"), os.O_RDWR, 0)
	ok(t, "open", err)
	ok(t, "chmod", f.Chmod(0))
	_, err = f.WriteString("written")
	ok(t, "write after chmod", err)
	_, err = f.ReadAt(make([]byte, 3), 0)
	ok(t, "read after chmod", err)
	f.Close()
	_, err = os.Open(c.at("chmod444"))
	wantErrno(t, "open mode 0", err, syscall.EACCES)
}

// The client and the host append to one file: no byte is lost.
func appendsMeet(t *testing.T, c *client) {
	write(t, c.dir, "log", "")
	var wg sync.WaitGroup
	for _, dir := range []string{c.dir, c.dir, c.host} {
		wg.Go(func() {
			f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
			ok(t, "open", err)
			defer f.Close()
			for range 100 {
				_, err := f.WriteString("0123456789abcde\n")
				ok(t, "append", err)
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(filepath.Join(c.host, "log"))
	ok(t, "read", err)
	if n := bytes.Count(got, []byte("0123456789abcde\n")); n != 300 || len(got) != 4800 {
		t.Errorf("%d lines in %d bytes, want 300 in 4800", n, len(got))
	}
}

func modesAreExact(t *testing.T, c *client) {
	defer unix.Umask(unix.Umask(0))
	fd, err := unix.Open(c.at("f666"), unix.O_CREAT|unix.O_WRONLY, 0o666)
	ok(t, "create", err)
	unix.Close(fd)
	ok(t, "mkdir", unix.Mkdir(c.at("d777"), 0o777))
	ok(t, "mkfifo", unix.Mkfifo(c.at("p622"), 0o622))
	unix.Umask(0o077)
	ok(t, "mkdir", unix.Mkdir(c.at("d700"), 0o777))
	for name, want := range map[string]uint32{"f666": 0o666, "d777": 0o777, "p622": 0o622, "d700": 0o700} {
		for _, dir := range []string{c.dir, c.host} {
			var st unix.Stat_t
			ok(t, "stat", unix.Lstat(filepath.Join(dir, name), &st))
			if st.Mode&0o7777 != want {
				t.Errorf("%s in %s: mode %o, want %o", name, dir, st.Mode&0o7777, want)
			}
		}
	}
}

func mapped(t *testing.T, c *client) {
	write(t, c.dir, "mapped", strings.Repeat("a", 8192))
	f, err := os.OpenFile(c.at("mapped"), os.O_RDWR, 0)
	ok(t, "open", err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	ok(t, "mmap", err)
	copy(m[4096:], "mapped")
	ok(t, "msync", unix.Msync(m, unix.MS_SYNC))
	ok(t, "munmap", unix.Munmap(m))
	ok(t, "fsync", f.Sync())
	got, _ := os.ReadFile(filepath.Join(c.host, "mapped"))
	if string(got[4096:4102]) != "mapped" {
		t.Errorf("the host reads %q", got[4096:4102])
	}
}

func anyName(t *testing.T, c *client) {
	dir := c.at("names")
	ok(t, "mkdir", os.Mkdir(dir, 0o755))
	names := []string{strings.Repeat("n", 255), "new\nline", "\xff\xfe", " ", "-rf", "*", "\\", "a:b", "\x01", "..."}
	for _, name := range names {
		ok(t, fmt.Sprintf("create %q", name), os.WriteFile(dir+"/"+name, nil, 0o644))
	}
	got, err := readNames(dir)
	ok(t, "list", err)
	if len(got) != len(names) {
		t.Errorf("%d names, want %d: %q", len(got), len(names), got)
	}
	wantErrno(t, "a name too long", os.WriteFile(dir+"/"+strings.Repeat("n", 256), nil, 0o644), syscall.ENAMETOOLONG)
	wantErrno(t, "stat of one too long", unix.Stat(dir+"/"+strings.Repeat("n", 256), &unix.Stat_t{}), syscall.ENAMETOOLONG)
	ok(t, "remove", os.RemoveAll(dir))
}

func times(t *testing.T, c *client) {
	write(t, c.dir, "times", "")
	at, mt := time.Unix(1, 2), time.Unix(-3, 4)
	ok(t, "utimes", os.Chtimes(c.at("times"), at, mt))
	ok(t, "symlink", os.Symlink("times", c.at("timeslink")))
	lt := []unix.Timespec{{Sec: 7}, {Sec: 8}}
	ok(t, "lutimes", unix.UtimesNanoAt(unix.AT_FDCWD, c.at("timeslink"), lt, unix.AT_SYMLINK_NOFOLLOW))
	for _, dir := range []string{c.dir, c.host} {
		var st unix.Stat_t
		ok(t, "stat", unix.Lstat(filepath.Join(dir, "times"), &st))
		if time.Unix(st.Atim.Unix()) != at || time.Unix(st.Mtim.Unix()) != mt {
			t.Errorf("%s: got st.Atim %v, st.Mtim %v; want time.Unix(st.Atim.Unix()) == %v and time.Unix(st.Mtim.Unix()) == %v",
				dir, st.Atim, st.Mtim, at, mt)
		}
		ok(t, "lstat", unix.Lstat(filepath.Join(dir, "timeslink"), &st))
		if st.Mtim.Sec != 8 {
			t.Errorf("%s: link %v", dir, st.Mtim)
		}
	}
}

func sparse(t *testing.T, c *client) {
	f, err := os.Create(c.at("sparse"))
	ok(t, "create", err)
	defer f.Close()
	_, err = f.WriteAt([]byte("end"), 1<<30)
	ok(t, "write", err)
	off, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_DATA)
	ok(t, "seek", err)
	if off != 1<<30 {
		t.Errorf("data at %d", off)
	}
	var st unix.Stat_t
	ok(t, "stat", unix.Fstat(int(f.Fd()), &st))
	if st.Blocks > 100 {
		t.Errorf("%d blocks", st.Blocks)
	}
	ok(t, "punch", unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1<<30, 4096))
	ok(t, "remove", os.Remove(c.at("sparse")))
}

func copyRange(t *testing.T, c *client) {
	write(t, c.dir, "copyfrom", strings.Repeat("copied ", 1000))
	from, err := os.Open(c.at("copyfrom"))
	ok(t, "open", err)
	defer from.Close()
	to, err := os.Create(c.at("copyto"))
	ok(t, "create", err)
	defer to.Close()
	n, err := unix.CopyFileRange(int(from.Fd()), nil, int(to.Fd()), nil, 10000, 0)
	if n != 7000 || err != nil {
		t.Errorf("copied %d, %v", n, err)
	}
	got, _ := os.ReadFile(c.at("copyto"))
	if string(got) != strings.Repeat("copied ", 1000) {
		t.Errorf("%d bytes copied", len(got))
	}
}

func bigWrite(t *testing.T, c *client) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	ok(t, "write", os.WriteFile(c.at("big"), data, 0o644))
	got, err := os.ReadFile(c.at("big"))
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes read, %v", len(got), err)
	}
}

func truncateOnOpen(t *testing.T, c *client) {
	write(t, c.dir, "trunc", "content")
	write(t, c.host, "truncnew", "made by the host, unknown to the kernel")
	for _, name := range []string{"trunc", "truncnew"} {
		f, err := os.OpenFile(c.at(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		ok(t, "open", err)
		f.Close()
		if fi, err := os.Stat(filepath.Join(c.host, name)); err != nil || fi.Size() != 0 {
			t.Errorf("%s: got fi %v, err %v; want err == nil and fi.Size() == 0", name, fi, err)
		}
	}
	// The kernel believes that a name is free, and the host takes it.
	_, err := os.Stat(c.at("taken"))
	wantErrno(t, "stat", err, syscall.ENOENT)
	write(t, c.host, "taken", "by the host")
	f, err := os.OpenFile(c.at("taken"), os.O_CREATE|os.O_RDWR, 0o644)
	ok(t, "open what was taken", err)
	got, err := io.ReadAll(f)
	if string(got) != "by the host" {
		t.Errorf("read %q, %v", got, err)
	}
	f.Close()
	_, err = os.Stat(c.at("taken2"))
	wantErrno(t, "stat", err, syscall.ENOENT)
	write(t, c.host, "taken2", "by the host")
	_, err = os.OpenFile(c.at("taken2"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	wantErrno(t, "insist on making what was taken", err, syscall.EEXIST)
}

func deepDirectories(t *testing.T, c *client) {
	fd, err := unix.Open(c.dir, unix.O_DIRECTORY, 0)
	ok(t, "open", err)
	const depth = 1000
	for i := range depth {
		if err := unix.Mkdirat(fd, "deep", 0o755); err != nil {
			t.Fatalf("mkdir at %d: %v", i, err)
		}
		next, err := unix.Openat(fd, "deep", unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatalf("open at %d: %v", i, err)
		}
		unix.Close(fd)
		fd = next
	}
	out, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o644)
	ok(t, "create at the bottom", err)
	unix.Close(out)
	unix.Close(fd)
	run(t, c.dir, "rm", "-rf", "deep")
	_, err = os.Lstat(filepath.Join(c.host, "deep"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("deep is still there: %v", err)
	}
}

func manyNames(t *testing.T, c *client) {
	for i := range 3000 {
		write(t, c.host, fmt.Sprintf("many/%06d", i), "x")
	}
	names, err := readNames(c.at("many"))
	ok(t, "list", err)
	if len(names) != 3000 {
		t.Errorf("%d names", len(names))
	}
	run(t, c.dir, "rm", "-rf", "many")
	if _, err := os.Lstat(c.at("many")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("many is still there: %v", err)
	}
}
