package gitscan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// paths returns what is tracked in the working tree at root.
func paths(t *testing.T, root string) (names []string, err error) {
	t.Helper()
	dir := filepath.Join(root, ".git")
	if target, ok := pathIn(dir, "gitdir: "); ok {
		dir = absolute(root, target)
	}
	entries, err := Tracked(t.Context(), Tree{Top: ".", Dir: dir, Common: common(dir)}, func([]byte) bool { return true })
	for _, e := range entries {
		names = append(names, e.Path)
	}
	return names, err
}

// tracked compares with what git itself says.
func tracked(t *testing.T, root string) []string {
	t.Helper()
	got, err := paths(t, root)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(git(t, root, "ls-files", "-z"), "\x00"), "\x00")
	slices.Sort(want)
	want = slices.Compact(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	return got
}

func TestTracked(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" version "+version, func(t *testing.T) {
				root := t.TempDir()
				git(t, root, "init", "-q", "--object-format="+format)
				for i := range 200 {
					write(t, fmt.Sprintf("%s/dir%d/%s", root, i%7, strings.Repeat("n", i+1)), "x")
				}
				write(t, filepath.Join(root, ".env"), "x")
				write(t, filepath.Join(root, "odd\n\xff"), "x")
				git(t, root, "update-index", "--index-version", version)
				git(t, root, "add", ".")
				git(t, root, "update-index", "--index-version", version)
				git(t, root, "commit", "-q", "-m", "x")
				write(t, filepath.Join(root, "new"), "x")
				git(t, root, "add", "--intent-to-add", "new") // has extended flags
				if !slices.Contains(tracked(t, root), ".env") {
					t.Error("no .env")
				}
				git(t, root, "worktree", "add", "-q", "tree")
				tracked(t, filepath.Join(root, "tree"))
				git(t, root, "update-index", "--split-index")
				git(t, root, "rm", "-q", "--cached", ".env")
				if got, err := paths(t, root); err != nil || !slices.Contains(got, "new") {
					t.Errorf("split index: %d paths, %v", len(got), err)
				}
			})
		}
	}
}

func TestTrackedConflict(t *testing.T) {
	root := t.TempDir()
	project(t, root)
	for _, branch := range []string{"a", "b"} {
		git(t, root, "checkout", "-q", "-b", branch, "main")
		write(t, filepath.Join(root, "file"), branch)
		git(t, root, "commit", "-q", "-a", "-m", branch)
	}
	git(t, root, "read-tree", "-m", "main", "b", "a")
	if got := tracked(t, root); !slices.Equal(got, []string{"file"}) {
		t.Errorf("got %q", got)
	}
}

func TestTrackedNothing(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		if got, err := paths(t, root); err != nil || len(got) != 0 {
			t.Errorf("got %q, %v", got, err)
		}
		git(t, root, "init", "-q")
	}
	if got, err := paths(t, filepath.Join(root, ".git/HEAD")); err != nil || len(got) != 0 {
		t.Errorf("a file: got %q, %v", got, err)
	}
}

func TestTrackedHostile(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, ".git/index")
	entry := func(name string) string { return strings.Repeat("\x00", 62) + name }
	for name, text := range map[string]string{
		"empty":          "",
		"short":          "DIRC\x00\x00",
		"magic":          "DIRD\x00\x00\x00\x02\x00\x00\x00\x00",
		"version":        "DIRC\x00\x00\x00\x05\x00\x00\x00\x00",
		"count":          "DIRC\x00\x00\x00\x02\xff\xff\xff\xff",
		"prefix":         "DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + entry("\x05x\x00"),
		"endless varint": "DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"long name":      "DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + entry(strings.Repeat("x", 10000)),
	} {
		write(t, path, text)
		if got, err := paths(t, root); err == nil {
			t.Errorf("%s: got %q; want err != nil", name, got)
		}
	}
	if err := os.Truncate(path, maxIndex+1); err != nil {
		t.Fatal(err)
	}
	if _, err := paths(t, root); !errors.Is(err, errIndexSize) {
		t.Errorf("huge: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	symlink(t, "/dev/zero", path)
	if _, err := paths(t, root); !errors.Is(err, errNotRegular) {
		t.Errorf("device: %v", err)
	}
}
