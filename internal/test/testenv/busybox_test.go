package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/internal/test/testbin"
)

// A busybox with libraries, as Debian's package of that name has, does not do.
func TestIsStatic(t *testing.T) {
	defer testbin.Remove()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{filepath.Join(testbin.Dir(t), "wolffia-guest"): true, git: false, text: false} {
		if got := isStatic(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
