package engine

import (
	"os"
	"path/filepath"
)

// setMark notes that from now on something of the sandbox may be in the engine: it is
// called with making set before the engine is asked for it, and again once it has
// answered. dir is launch.Spec.Dir.
func setMark(dir string, making bool) error {
	var text []byte
	if making {
		text = []byte("making")
	}
	return os.WriteFile(MarkFile(dir), text, 0o600)
}

// Making reports whether the engine was asked for the sandbox and its answer was
// not seen: the container may still be made.
func Making(dir string) bool {
	text, err := os.ReadFile(MarkFile(dir))
	return err == nil && len(text) > 0
}

// MarkFile is the file of the mark in launch.Spec.Dir.
func MarkFile(dir string) string { return filepath.Join(dir, "in-engine") }
