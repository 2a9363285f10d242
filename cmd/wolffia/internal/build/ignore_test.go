package build

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"wolffia/runtime"
)

// What a Dockerfile's own .dockerignore may have is bounded: it can be a link to any file.
func TestIgnoreIsBounded(t *testing.T) {
	dir := t.TempDir()
	b := &builder{Options: &Options{Dir: dir, File: filepath.Join(dir, "Dockerfile")}}
	if err := os.WriteFile(b.File+".dockerignore", bytes.Repeat([]byte("#\n"), maxFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.loadIgnore(); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("got %v, want runtime.ErrInvalid", err)
	}
}
