package engine

import (
	"os"
	"path/filepath"
)

// setMark records that the engine may have the sandbox's container. making says that a
// request to create it has no answer yet. dir is launch.Spec.Dir.
func setMark(dir string, making bool) error {
	var text []byte
	if making {
		text = []byte("making")
	}
	return os.WriteFile(MarkFile(dir), text, 0o600)
}

// Making reports whether a request to create the container has no answer: the engine may
// still be creating it.
func Making(dir string) bool {
	text, err := os.ReadFile(MarkFile(dir))
	return err == nil && len(text) > 0
}

// MarkFile returns the path of the mark in launch.Spec.Dir.
func MarkFile(dir string) string { return filepath.Join(dir, "in-engine") }
