package statedir

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory that is removed after it was opened, as that of a pool whose last pooled sandbox has ended, has no names: the kernel says
// ENOENT for it.
func TestNamesOfRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if list, err := namesIn(fd, dir, 10); len(list) > 0 || err != nil {
		t.Errorf("namesIn: got list %v, err %v; want len(list) <= 0 and err == nil", list, err)
	}
}
