package reposync

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// The kernel takes milliseconds to end a watch, so that a short command has none.
func TestShortCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(&repositories{})
		synctest.Wait()
		fds, err := filepath.Glob("/proc/self/fd/*")
		if err != nil || len(fds) == 0 {
			t.Fatal(fds, err)
		}
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "inotify") {
				t.Errorf("a command that has just begun has %s: %s", fd, to)
			}
		}
		w.close()
	})
}
