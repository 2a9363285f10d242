package archive

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGet(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "text")
	write(t, filepath.Join(dir, "empty"), "")
	must(t, os.Symlink("file", filepath.Join(dir, "link")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, tt := range []struct {
		path string
		max  int64
		want string
		err  error
	}{
		{"file", 4, "text", nil},
		{"file", 3, "", ErrTooLarge},
		{"empty", 0, "", nil},
		{"link", 100, "text", nil},
		{"loop", 100, "", fs.ErrNotExist},
		{"dangling", 100, "", fs.ErrNotExist},
		{"file/below", 100, "", fs.ErrNotExist},
		{"missing", 100, "", fs.ErrNotExist},
		{"fifo", 100, "", ErrNotRegular},
		{".", 100, "", ErrNotRegular},
		{"/dev/zero", 100, "", ErrNotRegular},
		{"/proc/self/status", 10, "", ErrTooLarge},
	} {
		path := tt.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		var b bytes.Buffer
		err := Get(&b, path, tt.max)
		if !errors.Is(err, tt.err) || err == nil && b.String() != tt.want {
			t.Errorf("%s: got %q, err %v; want err is %v and (err != nil or b.String() == %q)", tt.path, b.String(), err, tt.err, tt.want)
		}
	}
	var b bytes.Buffer
	if err := Get(&b, "/proc/self/status", 1<<20); err != nil || !strings.Contains(b.String(), "Pid:") {
		t.Errorf("a file of size 0 that has content: %q, %v", b.String(), err)
	}
	if os.Geteuid() != 0 {
		must(t, os.Chmod(filepath.Join(dir, "file"), 0))
		if err := Get(io.Discard, filepath.Join(dir, "file"), 100); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file that may not be read: %v", err)
		}
	}
}

func TestPut(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("run"), "old")
	must(t, os.Chmod(at("run"), 0o4750))
	write(t, at("target"), "kept")
	must(t, os.Mkdir(at("dir"), 0o755))
	must(t, os.Symlink("target", at("link")))
	must(t, os.Symlink("dir", at("dirlink")))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	old := unix.Umask(0o022)
	defer unix.Umask(old)
	for _, name := range []string{"new", "run", "a/b/c", "link", "dirlink/in", "-n", "empty"} {
		text := "of " + name
		if name == "empty" {
			text = ""
		}
		if err := Put(strings.NewReader(text), at(name), int64(len(text))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"run": 0o750, "new": 0o644, "link": 0o644} {
		if st, err := os.Lstat(at(name)); err != nil || st.Mode() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", name, st.Mode(), mode, err)
		}
	}
	for name, want := range map[string]error{"dir": ErrNotRegular, "fifo": ErrNotRegular, "target/x": unix.ENOTDIR} {
		if err := Put(strings.NewReader("x"), at(name), 1); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if got, err := os.ReadFile(at("target")); err != nil || string(got) != "kept" {
		t.Errorf("a link was followed: %q, %v", got, err)
	}
	whole(t, dir)
}

// whole checks that no temporary file is left.
func whole(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), ".wolffia-") {
			t.Errorf("%s is left", path)
		}
		return err
	}))
}

// Content that does not arrive in full is not written, whatever happens to its
// sender, and neither is more than was announced.
func TestPutWantsAll(t *testing.T) {
	for _, existing := range []string{"whole", ""} {
		for _, tt := range []struct {
			what string
			r    io.Reader
			want error
		}{
			{"nothing", strings.NewReader(""), ErrShort},
			{"a part", strings.NewReader("newe"), ErrShort},
			{"more", strings.NewReader("newer."), ErrShort},
			{"a broken pipe", io.MultiReader(strings.NewReader("ne"), errorReader{io.ErrUnexpectedEOF}), io.ErrUnexpectedEOF},
		} {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			if existing != "" {
				write(t, file, existing)
			}
			if err := Put(tt.r, file, 5); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.what, err, tt.want)
			}
			if got, err := os.ReadFile(file); string(got) != existing || (err == nil) != (existing != "") {
				t.Errorf("%s: the file holds %q, %v", tt.what, got, err)
			}
			whole(t, dir)
		}
	}
}

// unwritable is a directory in which no file can be created.
func unwritable(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("root can create a file in any directory")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "old content")
	must(t, os.Symlink("file", filepath.Join(dir, "link")))
	must(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { must(t, os.Chmod(dir, 0o755)) })
	return dir
}

// Where nothing can be created, a file is written in place.
func TestPutInPlace(t *testing.T) {
	dir := unwritable(t)
	file := filepath.Join(dir, "file")
	for _, text := range []string{"new", "longer than the old content was", ""} {
		must(t, Put(strings.NewReader(text), file, int64(len(text))))
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("it holds %q, %v", got, err)
		}
	}
	must(t, Put(strings.NewReader("kept"), file, 4))
	for name, want := range map[string]error{"file": ErrShort, "link": ErrShort, "missing": ErrShort} {
		if err := Put(strings.NewReader("x"), filepath.Join(dir, name), 5); !errors.Is(err, want) {
			t.Errorf("%s, cut off: %v", name, err)
		}
	}
	for name, want := range map[string]error{"link": ErrNotRegular, "missing": fs.ErrPermission} {
		if err := Put(strings.NewReader("x"), filepath.Join(dir, name), 1); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "kept" {
		t.Errorf("it holds %q, %v", got, err)
	}
}

// So it is with what Unpack writes; of what is in place of a file the error says that it may not be changed.
func TestUnpackInPlace(t *testing.T) {
	dir, src := unwritable(t), t.TempDir()
	for _, text := range []string{"longer than the old content was", "new", ""} {
		write(t, filepath.Join(src, "file"), text)
		var b bytes.Buffer
		packed(t, &b, filepath.Join(src, "file"))
		must(t, Unpack(&b, dir, nil))
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != text {
			t.Errorf("it holds %q, %v", got, err)
		}
	}
	must(t, os.Symlink("target", filepath.Join(src, "symlink")))
	for _, tt := range []struct{ from, to string }{{"file", "missing"}, {"file", "link"}, {"symlink", "missing"}, {"symlink", "link"}, {"symlink", "file"}} {
		var b bytes.Buffer
		packed(t, &b, filepath.Join(src, tt.from))
		if err := Unpack(&b, filepath.Join(dir, tt.to), nil); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s to %s: %v", tt.from, tt.to, err)
		}
	}
}

func TestIsTemporary(t *testing.T) {
	for name, want := range map[string]bool{
		tempName(): true, tempPrefix: false, tempName() + "A": false, "a" + tempName(): false, strings.ToLower(tempName()): false, "": false,
	} {
		if got := IsTemporary(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// A file that cannot take all of its new content in place has its old one again.
func TestPutInPlacePutsBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, tt := range []struct{ old, text string }{{"old", strings.Repeat("new", 1000)}, {strings.Repeat("old", 300), "short"}} {
		write(t, file, tt.old)
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		must(t, err)
		kept, err := os.ReadFile(file)
		must(t, err)
		if err := overwrite(f, &failing{Reader: *strings.NewReader(tt.text), after: 2}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the error is %v", err)
		}
		must(t, overwrite(f, bytes.NewReader(kept)))
		must(t, f.Close())
		if got, err := os.ReadFile(file); err != nil || string(got) != tt.old {
			t.Errorf("it holds %q, %v", got, err)
		}
	}
}

// A failing reader fails after some bytes.
type failing struct {
	strings.Reader
	after int
}

func (f *failing) Read(b []byte) (int, error) {
	if f.after == 0 {
		return 0, io.ErrClosedPipe
	}
	n, err := f.Reader.Read(b[:f.after])
	f.after -= n
	return n, err
}
