package local

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
)

// What callers that were killed have left goes, and nothing of a user's or of a call that goes on.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-3 * boot.ReviewLimit)
	fork := forkPrefix + strings.ToLower(rand.Text())
	wants := map[string]bool{ // whether it stays
		fork: false, forkPrefix + "x": true, forkPrefix + "of-a-user-with-a-long-name": true, "upper": true,
	}
	for name := range wants {
		path := filepath.Join(dir, name)
		err := unix.Mkfifo(path, 0o600)
		if name == fork {
			err = os.Remove(path)
			if err == nil {
				err = os.MkdirAll(filepath.Join(path, "upper", "dir"), 0o700)
			}
		}
		if err == nil {
			err = os.Chtimes(path, long, long)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	used := forkPrefix + rand.Text()
	if err := unix.Mkfifo(filepath.Join(dir, used), 0o600); err != nil {
		t.Fatal(err)
	}
	wants[used] = true
	removeStale(dir, forkPrefix)
	removeStale(filepath.Join(dir, "nothing"), forkPrefix)
	for name, stays := range wants {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", name, err == nil, stays)
		}
	}
}
