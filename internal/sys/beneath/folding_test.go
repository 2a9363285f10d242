package beneath

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNativeDirectoriesDoNotFold(t *testing.T) {
	for _, names := range [][]string{{}, {"1", "2"}, {"Readme"}, {"readme", "README"}, {"1", "é", ".env"}} {
		dir := t.TempDir()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckNames(fd); err != nil {
			t.Errorf("%q: %v", names, err)
		}
		unix.Close(fd)
	}
}
