package complete

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What completes a command is what can be run: not files without the right, nor directories.
func TestPrograms(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for name, mode := range map[string]os.FileMode{
		filepath.Join(a, "make"): 0o755, filepath.Join(b, "make"): 0o755, filepath.Join(b, "mawk"): 0o755,
		filepath.Join(a, "man.txt"): 0o644, filepath.Join(a, "sh"): 0o755,
	} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(a, "mad"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := programs([]string{a, b, "/nonexistent"}, "ma"); !slices.Equal(got, []string{"make", "mawk"}) {
		t.Errorf("%q", got)
	}
}
