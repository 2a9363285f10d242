package policy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The walk of a home leaves out the sandboxes of the state directory, which may be thousands, and
// nothing else.
func TestHomeWalkSkips(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{".local/state/wolffia/sandboxes", ".local/state/wolffia/x", ".config/sandboxes"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/x", filepath.Join(home, dir, "link")); err != nil {
			t.Fatal(err)
		}
	}
	w := homeWalk{home: home, left: maxHome, end: time.Now().Add(time.Minute), skip: filepath.Join(home, ".local/state/wolffia/sandboxes")}
	w.walk()
	slices.Sort(w.links)
	if want := []string{".config/sandboxes/link", ".local/state/wolffia/x/link"}; !slices.Equal(w.links, want) {
		t.Errorf("links %q, want %q", w.links, want)
	}
}
