package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRoundTrip(t *testing.T) {
	src := filepath.Join(t.TempDir(), "top")
	for name, text := range map[string]string{
		"plain":                  "text",
		"empty":                  "",
		"new\nline":              "x",
		"bad\xff\xfeutf8":        "x",
		"spaces and 'quotes'\"":  "x",
		"ünïcode/☃":              "x",
		strings.Repeat("n", 255): "x",
		strings.Repeat("d", 255) + "/" + strings.Repeat("e", 255) + "/" + strings.Repeat("f", 255): "x",
		strings.Repeat("deep/", 200) + "file":                                                      "x",
		"a/x":                                                                                      "x", // a, a-b: not the order of whole paths
		"a-b":                                                                                      "x",
		"exec":                                                                                     "#!/bin/sh",
		"-rf":                                                                                      "x",
		".wolffia-x":                                                                               "x",
		"binary":                                                                                   "\x00\x01\r\n",
	} {
		write(t, filepath.Join(src, name), text)
	}
	must(t, os.MkdirAll(filepath.Join(src, "emptydir/sub"), 0o755))
	must(t, os.Chmod(filepath.Join(src, "exec"), 0o751))
	must(t, os.Chmod(filepath.Join(src, "emptydir"), 0o700))
	must(t, os.Chmod(filepath.Join(src, "empty"), 0o400))
	for name, target := range map[string]string{
		"link": "plain", "dangling": "no/where", "up": "../../../etc/passwd", "abs": "/etc/shadow",
		"dirlink": "emptydir", "long": strings.Repeat("t/", 2000), "odd": "\xff\n",
	} {
		must(t, os.Symlink(target, filepath.Join(src, name)))
	}
	must(t, os.Link(filepath.Join(src, "plain"), filepath.Join(src, "hardlink")))
	must(t, os.Chtimes(filepath.Join(src, "plain"), time.Time{}, time.Unix(1, 123456789)))
	must(t, os.Chtimes(filepath.Join(src, "exec"), time.Time{}, time.Unix(-1000, 0)))
	must(t, os.Chmod(filepath.Join(src, "emptydir/sub"), 0o555))
	t.Cleanup(func() { must(t, os.Chmod(filepath.Join(src, "emptydir/sub"), 0o755)) })

	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for _, into := range []bool{true, false} {
		dst := t.TempDir()
		got := filepath.Join(dst, "top")
		if !into {
			dst += "/other"
			got = dst
		}
		must(t, transfer(t, src, dst, nil))
		if d := cmp.Diff(list(t, src, true), list(t, got, true)); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
		must(t, os.Chmod(filepath.Join(got, "emptydir/sub"), 0o755))
		must(t, os.Chmod(filepath.Join(src, "emptydir/sub"), 0o555))
		info, err := os.Stat(filepath.Join(got, "hardlink"))
		must(t, err)
		if n := info.Sys().(*syscall.Stat_t).Nlink; n != 1 {
			t.Errorf("%d links", n)
		}
	}
}

// What is new on the host gets what the umask leaves; what is there keeps its permissions.
func TestUmask(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "top"), t.TempDir()
	for _, name := range []string{"file", "old/file", "dir/file"} {
		write(t, filepath.Join(src, name), "x")
		must(t, os.Chmod(filepath.Join(src, name), 0o777))
		must(t, os.Chmod(filepath.Dir(filepath.Join(src, name)), 0o777))
	}
	must(t, os.MkdirAll(filepath.Join(dst, "top/old"), 0o755))
	must(t, os.Chmod(filepath.Join(dst, "top/old"), 0o755))
	must(t, transfer(t, src, dst, &Options{Umask: 0o027}))
	for name, mode := range map[string]os.FileMode{"file": 0o750, "old": 0o755, "old/file": 0o750, "dir": 0o750, "dir/file": 0o750} {
		if st, err := os.Stat(filepath.Join(dst, "top", name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", name, st.Mode(), mode, err)
		}
	}
}

// TestPlace: where things go is as with cp.
func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		want           string // relative path of what is new; "" for an error
	}{
		{"file into directory", "file", "dir", "dir/file"},
		{"file into directory with slash", "file", "dir/", "dir/file"},
		{"file under a new name", "file", "new", "new"},
		{"file over a file", "file", "old", "old"},
		{"file into no directory", "file", "none/", ""},
		{"file without parent", "file", "none/new", ""},
		{"file below a file", "file", "old/new", ""},
		{"file over a link", "file", "link", "link"},
		{"file over a dangling link", "file", "dangling", "dangling"},
		{"file over a link to a directory", "file", "dirlink", ""},
		{"file through a link to a directory", "file", "dirlink/", "dir/file"},
		{"file over a link that is in the directory", "file", "has", "has/file"},
		{"file over a directory that is in the directory", "file", "hasdir", ""},
		{"file over a fifo", "file", "fifo", ""},
		{"file over itself", "file", "file", "file"},
		{"link", "srclink", "new", "new"},
		{"link over a file", "srclink", "old", "old"},
		{"tree into directory", "tree", "dir", "dir/tree"},
		{"tree under a new name", "tree", "new", "new"},
		{"tree under a new name with slash", "tree/", "new/", "new"},
		{"tree over a file", "tree", "old", ""},
		{"tree over a link", "tree", "link", "link"},
		{"tree into a tree that exists", "tree", "hastree", "hastree/tree"},
		{"nowhere", "file", "", ""},
		{"nothing", "none", "new", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			write(t, "file", "file")
			write(t, "old", "old")
			write(t, "tree/sub/x", "tree")
			write(t, "precious", "precious")
			write(t, "hasdir/file/x", "")
			write(t, "hastree/tree/sub/x", "old")
			write(t, "hastree/tree/sub/y", "kept")
			must(t, os.MkdirAll("has", 0o755))
			must(t, os.Mkdir("dir", 0o755))
			must(t, os.Symlink("../precious", "has/file"))
			must(t, os.Symlink("precious", "link"))
			must(t, os.Symlink("precious", "srclink"))
			must(t, os.Symlink("none", "dangling"))
			must(t, os.Symlink("dir", "dirlink"))
			must(t, syscall.Mkfifo("fifo", 0o600))
			err := transfer(t, tt.from, tt.to, nil)
			if (err == nil) != (tt.want != "") {
				t.Fatalf("error %v", err)
			}
			if text, _ := os.ReadFile("precious"); string(text) != "precious" {
				t.Errorf("precious is %q", text)
			}
			if text, _ := os.ReadFile("hastree/tree/sub/y"); string(text) != "kept" {
				t.Error("a file was lost in a merge")
			}
			if tt.want == "" {
				return
			}
			if d := cmp.Diff(list(t, strings.TrimSuffix(tt.from, "/"), true), list(t, tt.want, true)); d != "" && tt.to != "hastree" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if text, _ := os.ReadFile(tt.want + "/sub/x"); strings.HasPrefix(tt.name, "tree") && string(text) != "tree" {
				t.Errorf("x is %q", text)
			}
		})
	}
}

func TestPackKinds(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/top/a", "")
	for _, name := range []string{"0", "fifo", "fifo2", "fifo3"} {
		must(t, syscall.Mkfifo(dir+"/top/"+name, 0o600))
	}
	skipped, err := Pack(io.Discard, dir+"/top")
	want := `left out: "top/0", "top/fifo", "top/fifo2" and 1 more: not a regular file, directory or symbolic link`
	if err != nil || skipped != want {
		t.Errorf("%q, %v", skipped, err)
	}
	for _, path := range []string{"/dev/null", dir + "/top/fifo"} {
		if _, err := Pack(io.Discard, path); !errors.Is(err, ErrKind) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Pack(io.Discard, "/"); err == nil {
		t.Error("the root has a name")
	}
	t.Chdir(dir + "/top")
	must(t, os.Mkdir(dir+"/dst", 0o755))
	must(t, transfer(t, ".", dir+"/dst", nil))
	if _, err := os.Stat(dir + "/dst/top/a"); err != nil {
		t.Error(err)
	}
}

func TestSetuidIsNotKept(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/top/f", "")
	must(t, os.Chmod(dir+"/top/f", 0o755|os.ModeSetuid|os.ModeSetgid))
	must(t, os.Chmod(dir+"/top", 0o777|os.ModeSticky|os.ModeSetgid))
	must(t, transfer(t, dir+"/top", dir+"/new", nil))
	want := []string{`"." drwxrwxrwx`, `"f" -rwxr-xr-x ""`}
	if d := cmp.Diff(want, list(t, dir+"/new", false)); d != "" {
		t.Error(d)
	}
}

// TestDeep: what is too deep is an error at both ends, not a crash.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	fd, err := os.OpenRoot(dir)
	must(t, err)
	for range MaxDepth + 1 {
		must(t, fd.Mkdir("dd", 0o755))
		next, err := fd.OpenRoot("dd")
		fd.Close()
		must(t, err)
		fd = next
	}
	fd.Close()
	if _, err := Pack(io.Discard, dir+"/dd"); err == nil {
		t.Error("too deep is no error")
	}
	must(t, transfer(t, dir+"/dd/dd", dir+"/new", nil))
}

// TestMemory: a big file needs no more memory than a small one.
func TestMemory(t *testing.T) {
	const size = 100 << 20
	dir := t.TempDir()
	f, err := os.Create(dir + "/big")
	must(t, err)
	must(t, f.Truncate(size))
	must(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must(t, transfer(t, dir+"/big", dir+"/copy", nil))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	info, err := os.Stat(dir + "/copy")
	must(t, err)
	if info.Size() != size {
		t.Errorf("%d bytes", info.Size())
	}
}

// TestBrokenTransfer: a stream cut anywhere is an error and leaves no part of a
// file.
func TestBrokenTransfer(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/top/a", strings.Repeat("a", 2000))
	write(t, dir+"/top/sub/b", strings.Repeat("b", 2000))
	var b bytes.Buffer
	packed(t, &b, dir+"/top")
	for n := 0; n < b.Len(); n += 128 {
		dst := fmt.Sprintf("%s/%d", dir, n)
		err := Unpack(bytes.NewReader(b.Bytes()[:n]), dst, nil)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("cut at %d of %d: %v", n, b.Len(), err)
		}
		for _, name := range []string{"a", "sub/b"} {
			if info, err := os.Stat(dst + "/" + name); err == nil && info.Size() != 2000 {
				t.Errorf("cut at %d: %s has %d bytes", n, name, info.Size())
			}
		}
		if left, _ := filepath.Glob(dst + "/.wolffia*"); len(left) > 0 {
			t.Errorf("cut at %d: left %q", n, left)
		}
	}
}

func TestVanishing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/top/a", strings.Repeat("a", 1<<20))
	write(t, dir+"/top/b", "b")
	write(t, dir+"/top/c", "c")
	// The first write is the header of top, when its names are known.
	w := writerFunc(func(b []byte) (int, error) {
		_ = os.Remove(dir + "/top/b")
		return len(b), nil
	})
	packed(t, w, dir+"/top")
	w = func(b []byte) (int, error) {
		if len(b) > 10_000 { // content, not a header
			must(t, os.Truncate(dir+"/top/a", 10))
		}
		return len(b), nil
	}
	if _, err := Pack(w, dir+"/top"); err == nil {
		t.Error("a file that shrank is no error")
	}
}
