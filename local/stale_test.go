package local

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
)

// What callers that were killed have left goes, and nothing of a user's, or while a call goes on.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	fork, half := forkPrefix+strings.ToLower(rand.Text()), keptPrefix+strings.ToLower(rand.Text())
	wants := map[string]bool{ // whether it stays
		fork: false, half: false, forkPrefix + "x": true, forkPrefix + "of-a-user-with-a-long-name": true, "upper": true,
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
		if err != nil {
			t.Fatal(err)
		}
	}
	release, err := filelock.FlockShared(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	removeStale(dir)
	if list, err := os.ReadDir(dir); err != nil || len(list) != len(wants) {
		t.Errorf("while a call goes on there are %v, %v", list, err)
	}
	release()
	removeStale(dir)
	removeStale(filepath.Join(dir, "nothing"))
	for name, stays := range wants {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", name, err == nil, stays)
		}
	}
}
