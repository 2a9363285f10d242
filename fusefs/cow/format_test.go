package cow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func openTestDir(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestProbeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "probe"), 0o700); err != nil { // of a probe that was killed
		t.Fatal(err)
	}
	if err := Probe(openTestDir(t, dir)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if err := Probe(openTestDir(t, "/proc/self")); err == nil {
		t.Error("/proc is suitable")
	}
}

func TestLower(t *testing.T) {
	dir := openTestDir(t, t.TempDir())
	check := func(half Half, path string) {
		t.Helper()
		if err := SetLower(dir, half, path); err != nil {
			t.Fatal(err)
		}
		if h, p, err := Lower(dir); h != half || p != path || err != nil {
			t.Errorf("%d %q, want %d %q: %v", h, p, half, path, err)
		}
	}
	check(Merged, "")
	check(Moved, "a/b\n\xff")
	check(Own, "")
	check(Merged, "")
	for _, bad := range []string{"/a", "a/", "a//b", "..", "a/../b", ".", "a\x00", strings.Repeat("a/", 3000) + "a"} {
		if SetLower(dir, Moved, bad) == nil {
			t.Errorf("%q is a path", bad)
		}
		if len(bad) < 100 {
			if err := unix.Setxattr(procPath(dir), AttrLower, []byte(bad), 0); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Lower(dir); err == nil {
				t.Errorf("%q is taken from the disk", bad)
			}
		}
	}
}

func openLog(t *testing.T, path string) *Log {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "base.log")
	l := openLog(t, path)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	odd := "odd\n\x1b\xff"
	do(l.Add(Record{Path: "a", Type: unix.S_IFREG, Ino: 1}))
	do(l.Add(Record{Path: "a", Type: unix.S_IFREG, Ino: 2})) // not the first
	do(l.Add(Record{Path: odd, Type: unix.S_IFREG, Mode: 0o644, Ino: 3, Size: 4, Mtime: -5, Ctime: 6, Digest: "d"}))
	do(l.Add(Record{Path: "b", Ino: 7}))
	do(l.Rebase(Record{Path: "b", Ino: 8}))
	do(l.Add(Record{Path: "c", Ino: 9}))
	do(l.Forget("c"))
	do(l.Forget("never"))
	do(l.Sync())
	want := map[string]Record{
		"a": {Path: "a", Type: unix.S_IFREG, Ino: 1},
		odd: {Path: odd, Type: unix.S_IFREG, Mode: 0o644, Ino: 3, Size: 4, Mtime: -5, Ctime: 6, Digest: "d"},
		"b": {Path: "b", Ino: 8, Applied: true},
	}
	same := func(l *Log) {
		t.Helper()
		got, err := l.Records()
		do(err)
		if len(got) != len(want) {
			t.Errorf("%d records, want %d", len(got), len(want))
		}
		for p, r := range want {
			if got[p] != r {
				t.Errorf("%+v, want %+v", got[p], r)
			}
		}
	}
	same(l)
	do(l.Close())

	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	do(err)
	_, err = f.WriteString(`{"path":"torn","ino`)
	do(err)
	do(f.Close())
	l = openLog(t, path)
	same(l)
	do(l.Add(Record{Path: "c", Ino: 10})) // forgotten before
	do(l.Add(Record{Path: "a", Ino: 11}))
	want["c"] = Record{Path: "c", Ino: 10}
	same(l)
}

func TestDamagedLog(t *testing.T) {
	good := `{"path":"a","ino":1}` + "\n"
	for name, text := range map[string]string{
		"not JSON":     "{\n" + good,
		"outside":      `{"path":"../x"}` + "\n" + good,
		"endless line": strings.Repeat("x", 2*maxLine+1) + "\n" + good,
		"zeros":        strings.Repeat("\x00", 5000) + "}\n" + good + strings.Repeat("\x00", 5000),
	} {
		path := filepath.Join(t.TempDir(), "base.log")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l := openLog(t, path)
		if err := l.Add(Record{Path: "b", Ino: 2}); err != nil {
			t.Fatal(err)
		}
		records, err := l.Records()
		if err != nil || len(records) != 2 || records["a"].Ino != 1 || records["b"].Ino != 2 {
			t.Errorf(`%s: got records %v, err %v; want err == nil and len(records) == 2 and records["a"].Ino == 1 and records["b"].Ino == 2`,
				name, records, err)
		}
	}
}
