package guest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin": 0o755, "plain": 0o644} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name, "x"), nil, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		"":               syscall.ENOENT,
		"none:bin/x":     syscall.ENOENT,
		"plain:none":     syscall.EACCES,
		"loop:none":      syscall.ELOOP, // not "not found": the object is unknown
		"none:bin":       nil,
		"loop:plain:bin": nil,
	} {
		got, err := lookPath("x", dir, []string{"PATH=" + path})
		if !errors.Is(err, want) || want == nil && got != filepath.Join(dir, "bin/x") {
			t.Errorf("%q: %q, %v, want %v", path, got, err, want)
		}
	}
}
