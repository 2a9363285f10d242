package rmtree_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/test/testenv"
)

// What is not there is removed already; a file and a link are removed
// themselves, never what the link leads to.
func TestRemoveNoDirectory(t *testing.T) {
	dir := t.TempDir()
	keep := t.TempDir()
	if err := os.WriteFile(filepath.Join(keep, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(keep, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"missing", "file", "link"} {
		if err := rmtree.RemovePath(dir, name); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if _, err := os.Stat(filepath.Join(keep, "file")); err != nil {
		t.Error(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rmtree.RemovePath(fifo, "x"); err == nil {
		t.Error("a FIFO is a directory")
	}
	if err := rmtree.RemovePath(filepath.Join(dir, "missing"), "x"); err != nil {
		t.Error(err)
	}
}

// Deeper than a path may be long, and than there are descriptors, with
// directories that may not be listed, names that are in the way, many names,
// and links that lead out.
func TestRemoveHostileTree(t *testing.T) {
	dir := t.TempDir()
	keep := filepath.Join(dir, "keep")
	for _, d := range []string{keep, filepath.Join(dir, "tree"), filepath.Join(dir, "tree", "1"), filepath.Join(dir, "tree", "wide")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(keep, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(dir, "tree", "wide", fmt.Sprint(i)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tree/2", "tree/1/out"} {
		if err := os.Symlink(keep, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(filepath.Join(dir, "tree"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 100)
	var modes []int
	for range 3000 { // 300 kB of path
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Symlinkat(keep, at, "link"); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		modes = append(modes, at)
		at = next
		if len(modes) > 500 {
			_ = unix.Close(modes[0])
			modes = modes[1:]
		}
	}
	for _, fd := range append(modes, at) {
		if err := os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
	}
	if err := rmtree.RemovePath(dir, "tree"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "keep" {
		t.Error(left, err)
	}
	if _, err := os.Stat(filepath.Join(keep, "file")); err != nil {
		t.Error("it followed a link:", err)
	}
}

// A mount in the tree is not emptied: it is somebody else's.
func TestRemoveStopsAtMount(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	mnt := filepath.Join(dir, "tree", "mnt")
	if err := os.MkdirAll(mnt, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", mnt, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(mnt, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(mnt, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rmtree.RemovePath(dir, "tree"); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(mnt, "file")); err != nil {
		t.Error(err)
	}
}

// What this process may not delete goes to the function of Others, and nothing else does.
func TestOthers(t *testing.T) {
	var asked []string
	answer := error(nil)
	rmtree.Others(func(parent *os.File, name string) error {
		asked = append(asked, filepath.Join(parent.Name(), name))
		return answer
	})
	defer rmtree.Others(func(*os.File, string) error { return errors.New("a test has ended") })
	if os.Geteuid() == 0 {
		t.Skip("root may delete all")
	}
	dir := t.TempDir()
	for _, d := range []string{"own/in", "foreign/in"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := rmtree.RemovePath(dir, "own"); err != nil || asked != nil {
		t.Errorf("%v, asked %q", err, asked)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o700) }()
	if err := rmtree.RemovePath(dir, "foreign"); err != nil || len(asked) != 1 || asked[0] != filepath.Join(dir, "foreign") {
		t.Errorf("%v, asked %q", err, asked)
	}
	answer = errors.New("its reason")
	if err := rmtree.RemovePath(dir, "foreign"); !errors.Is(err, answer) || !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
}
