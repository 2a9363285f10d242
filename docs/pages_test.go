package docs

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// TestPages: wolffia carries all pages but those for who works on it.
func TestPages(t *testing.T) {
	left := []string{"README.md", "attack-matrix.md", "packages.md", "performance.md", "state.md", "wire.md"}
	for _, pattern := range []string{"*.md", "recipes/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			_, err := fs.Stat(Pages, file)
			if carried := err == nil; carried == slices.Contains(left, file) {
				t.Errorf("%s: carried %v: name it in Pages, or here", file, carried)
			}
		}
	}
}
