package reposync

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The host's half of what is made inside comes over no link that the sandbox has put there, and nothing but modules and
// worktrees of a git directory is made above it.
func TestOpenMade(t *testing.T) {
	top, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{".git/hooks", "real/.git", "empty"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, git := range []string{filepath.Join(top, ".git"), filepath.Join(top, "real/.git"), other} {
		if err := os.WriteFile(filepath.Join(git, "HEAD"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": other, "real/.git/modules": other, "within": "real"} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for path, want := range map[string]error{
		".git/modules/a/b": nil, ".git/worktrees": nil, "real": nil, ".": nil,
		"link": unix.ELOOP, "link/modules": unix.ELOOP,
		"real/.git/modules": unix.ELOOP, "real/.git/modules/x": unix.ELOOP, "within/.git": unix.ELOOP,
		"none": unix.ENOENT, "empty/none": unix.ENOENT,
		"../x": unix.EXDEV,
	} {
		dir, err := openMade(root, path)
		if want == nil && err != nil || !errors.Is(err, want) &&
			!(errors.Is(want, unix.ELOOP) && errors.Is(err, unix.ENOTDIR)) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			_ = dir.Close()
		}
	}
	if list, err := os.ReadDir(other); err != nil || len(list) != 1 {
		t.Errorf("behind the links: %v, %v", list, err)
	}
}

// A file .git is made where none is, and removed if it leads where it was made to lead.
func TestPointer(t *testing.T) {
	place, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	at := filepath.Join(place.Name(), ".git")
	if err := writePointer(place, "../x"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(at); string(text) != "gitdir: ../x\n" {
		t.Errorf("it is %q, %v", text, err)
	}
	if err := writePointer(place, "../y"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second one: %v", err)
	}
	if err := removePointer(place, "../y"); err == nil {
		t.Error("one that leads elsewhere is removed")
	}
	for range 2 {
		if err := removePointer(place, "../x"); err != nil {
			t.Error(err)
		}
	}
	if err := os.Symlink("/etc/passwd", at); err != nil {
		t.Fatal(err)
	}
	if err := removePointer(place, "../x"); err == nil {
		t.Error("a link is removed")
	}
	if err := writePointer(place, "../x"); err == nil {
		t.Error("a link is written to")
	}
}
