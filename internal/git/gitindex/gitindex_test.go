package gitindex

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// repository makes one with some files.
func repository(t testing.TB, format, version string) string {
	t.Helper()
	testenv.Tools(t, "git")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, root, "init", "-q", "--object-format="+format)
	for _, name := range []string{".gitignore", "a", "a.b/c", "a/b/c", "a/.gitignore", "z", strings.Repeat("long", 30)} {
		if name != "a" {
			write(t, filepath.Join(root, name), "*.o\n# "+name)
		}
	}
	for i := range 300 { // more than a word of a bitmap
		write(t, fmt.Sprintf("%s/d%d/f", root, i), "x")
	}
	git(t, root, "add", ".")
	git(t, root, "update-index", "--index-version", version)
	git(t, root, "commit", "-q", "-m", "x")
	return root
}

func read(t testing.TB, root string) *Index {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func eachFormat(t *testing.T, f func(t *testing.T, root string)) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" version "+version, func(t *testing.T) { f(t, repository(t, format, version)) })
		}
	}
}

// An index has what git says of it.
func TestParse(t *testing.T) {
	eachFormat(t, func(t *testing.T, root string) {
		write(t, filepath.Join(root, "new"), "x")
		git(t, root, "add", "--intent-to-add", "new") // has more flags
		x := read(t, root)
		var got strings.Builder
		for i := range x.Len() {
			s := x.Stat(i)
			fmt.Fprintf(&got, "%o %s %d\t%s\n  ctime: %d:%d\n  mtime: %d:%d\n  dev: %d\tino: %d\n  uid: %d\tgid: %d\n  size: %d\n", s.Mode, hex.EncodeToString(x.ID(i)),
				x.Stage(i), x.Name(i), s.CtimeSec, s.CtimeNsec, s.MtimeSec, s.MtimeNsec, s.Dev, s.Ino, s.UID, s.GID, s.Size)
			if name := string(x.Name(i)); x.Plain(i) != (name != "new") {
				t.Errorf("%s: Plain returns %v", name, x.Plain(i))
			}
		}
		var want []string
		for line := range strings.Lines(git(t, root, "ls-files", "--stage", "--debug")) {
			line, _, _ = strings.Cut(line, "\tflags:")
			want = append(want, strings.TrimSuffix(line, "\n")+"\n")
		}
		if got.String() != strings.Join(want, "") {
			t.Errorf("got\n%.2000s\nwant\n%.2000s", got.String(), strings.Join(want, ""))
		}
	})
}

// git believes an index of With: it looks at no file and lists no directory that it says nothing
// of, and of the others it finds all.
func TestWith(t *testing.T) {
	eachFormat(t, func(t *testing.T, root string) {
		write(t, filepath.Join(root, ".git/info/exclude"), "*.x\n")
		write(t, filepath.Join(root, "d1/untracked"), "x")
		x := read(t, root)
		dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(dir)
		made := x.With(&Cache{Top: root, Info: x.IgnoreID([]byte("*.x\n")), Root: x.Tree(dir)})
		if y, err := Parse(made); err != nil || y.Len() != x.Len() || !y.Whole() {
			t.Fatalf("the index that was made: %v", err)
		}
		hook := filepath.Join(t.TempDir(), "hook")
		write(t, hook, "#!/bin/sh\nprintf '2\\0'; [ ! -e \"$0.all\" ] || printf '/\\0'\n")
		if err := os.Chmod(hook, 0o755); err != nil {
			t.Fatal(err)
		}
		index := filepath.Join(root, ".git/index")
		put := func() {
			t.Helper()
			if err := os.WriteFile(index, made, 0o644); err != nil {
				t.Fatal(err)
			}
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(index, old, old); err != nil {
				t.Fatal(err)
			}
		}
		status := func() string {
			put()
			return git(t, root, "-c", "core.fsmonitor="+hook, "-c", "core.fsmonitorHookVersion=2", "-c", "core.untrackedCache=true", "-c", "index.threads=4", "status", "--porcelain")
		}
		write(t, filepath.Join(root, "a.b/c"), "changed")
		write(t, filepath.Join(root, "d2/unknown"), "x")
		if got, want := status(), "?? d1/untracked\n"; got != want {
			t.Errorf("with a monitor that knows of no change: got %q, want %q", got, want)
		}
		write(t, hook+".all", "")
		if got, want := status(), " M a.b/c\n?? d1/untracked\n?? d2/unknown\n"; got != want {
			t.Errorf("with one that knows nothing: got %q, want %q", got, want)
		}
		put()
		git(t, root, "fsck", "--strict")
	})
}

// git's own cache of untracked names lists the directories that git has listed.
func TestListed(t *testing.T) {
	eachFormat(t, func(t *testing.T, root string) {
		write(t, filepath.Join(root, "u/v/w"), "x")
		git(t, root, "-c", "core.untrackedCache=true", "status")
		var got []string
		if err := read(t, root).Listed(func(path string, s Stat) {
			info, err := os.Stat(filepath.Join(root, path))
			if err != nil || uint32(info.ModTime().Unix()) != s.MtimeSec || uint32(info.ModTime().Nanosecond()) != s.MtimeNsec {
				t.Errorf("%q: %v, and %+v in the index", path, err, s)
			}
			got = append(got, path)
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		want := []string{"", "a", "a.b", "a/b", "u", "u/v"}
		for i := range 300 {
			want = append(want, fmt.Sprintf("d%d", i))
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestWhole(t *testing.T) {
	root := repository(t, "sha1", "2")
	if !read(t, root).Whole() {
		t.Error("an index is not whole")
	}
	git(t, root, "update-index", "--split-index")
	if read(t, root).Whole() {
		t.Error("a split index is whole")
	}
}

// Names of version 4, which are packed, do not blow a small file up.
func TestParseBomb(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("DIRC\x00\x00\x00\x04\x00\x10\x00\x00")
	entry := func(size int) string { return strings.Repeat("\x00", 60) + string([]byte{byte(size >> 8), byte(size)}) }
	b.WriteString(entry(4000) + "\x00" + strings.Repeat("x", 4000) + "\x00")
	for range 1<<20 - 1 {
		b.WriteString(entry(4000) + "\x00\x00")
	}
	b.WriteString(strings.Repeat("\x00", 20))
	if _, err := Parse(b.Bytes()); err == nil {
		t.Error("it is parsed")
	}
}

// What a sandbox has written never makes it panic, or read elsewhere.
func FuzzParse(f *testing.F) {
	root := repository(f, "sha1", "4")
	git(f, root, "-c", "core.untrackedCache=true", "status")
	b, err := os.ReadFile(filepath.Join(root, ".git/index"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("\x00", 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := Parse(b)
		if err != nil {
			return
		}
		for i := range x.Len() {
			_, _, _, _ = x.Stat(i), x.ID(i), x.Plain(i), x.Raw(i)
			if name := x.Name(i); bytes.IndexByte(name, 0) >= 0 || name[:len(name)+1][len(name)] != 0 {
				t.Errorf("name %q is not ended by a NUL", name)
			}
		}
		_ = x.Listed(func(string, Stat) {})
		if y, err := Parse(x.With(nil)); err != nil || y.Len() != x.Len() {
			t.Errorf("With made what cannot be read: %v", err)
		}
	})
}
