package statefile

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// odd makes files that are not regular, and a second name of a regular one.
var odd = map[string]func(path string) error{
	"link":      func(path string) error { return os.Symlink("other", path) },
	"dangling":  func(path string) error { return os.Symlink("missing", path) },
	"hard link": func(path string) error { return os.Link(filepath.Join(filepath.Dir(path), "other"), path) },
	"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
	"read FIFO": func(path string) error {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return err
		}
		_, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) // open until the test ends
		return err
	},
	"socket":    func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
	"directory": func(path string) error { return os.Mkdir(path, 0o700) },
}

// What is in the place of the new version of a file is replaced, not followed, changed or
// waited for; a directory is an error, and stays.
func TestOddNewVersion(t *testing.T) {
	for what, put := range odd {
		for name, write := range map[string]func(string, any) error{"Write": Write, "WriteSync": WriteSync, "WritePrepared": WritePrepared} {
			dir := t.TempDir()
			file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
			must(t, os.WriteFile(other, []byte("other"), 0o600))
			must(t, Write(file, "old"))
			must(t, put(file+Coming))
			err := write(file, "new")
			want := "new"
			if what == "directory" {
				want = "old"
			}
			if got := ""; (err == nil) != (want == "new") || Read(file, &got) != nil || got != want {
				t.Errorf("%s at %s: the file has %q, want %q: %v", what, name, got, want, err)
			}
			if b, err := os.ReadFile(other); err != nil || string(b) != "other" {
				t.Errorf("%s at %s: the other file has %q, %v", what, name, b, err)
			}
			if _, err := os.Lstat(file + Coming); (err == nil) != (what == "directory") {
				t.Errorf("%s at %s: %v", what, name, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "missing")); err == nil {
				t.Errorf("%s at %s: the link was followed", what, name)
			}
		}
	}
}

// A file that was prepared is written once, and only if nothing is in it yet.
func TestPrepared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	inode := func(path string) uint64 {
		var st unix.Stat_t
		must(t, unix.Lstat(path, &st))
		return st.Ino
	}
	must(t, Prepare(file))
	prepared := inode(file + Coming)
	if _, err := os.Lstat(file); err == nil {
		t.Error("Prepare has made the file")
	}
	must(t, WritePrepared(file, "content"))
	if got := ""; Read(file, &got) != nil || got != "content" || inode(file) != prepared {
		t.Errorf("the file has %q and the inode %d, want %d", got, inode(file), prepared)
	}
	must(t, os.WriteFile(file+Coming, []byte("half"), 0o600)) // by a killed process
	must(t, WritePrepared(file, "new"))
	if got := ""; Read(file, &got) != nil || got != "new" {
		t.Errorf("the file has %q", got)
	}
}

// What is not a regular file is an error, and stays.
func TestOddFile(t *testing.T) {
	for what, put := range odd {
		if what == "hard link" {
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		must(t, os.WriteFile(filepath.Join(dir, "other"), []byte(`"other"`), 0o600))
		must(t, put(file))
		if got := ""; Read(file, &got) == nil {
			t.Errorf("%s: got %q; want Read(file, &got) != nil", what, got)
		}
		if _, err := os.Lstat(file); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What cannot be written leaves nothing.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10, Max: old.Max}))
	err := WriteBytes(file, make([]byte, 100))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
	if left, _ := os.ReadDir(dir); err == nil || len(left) > 0 {
		t.Errorf("%v, and %v is left", err, left)
	}
}

func TestReadBytes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, WriteBytes(file, []byte("text")))
	for most, want := range map[int64]string{0: "", 3: "tex", 4: "text", 5: "text"} {
		if b, err := ReadBytes(file, most); err != nil || string(b) != want {
			t.Errorf("%d: got %q, %v; want %q, nil", most, b, err, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
