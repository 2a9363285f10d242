package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReviewLetsRead: while a review has the changes of a tree, what is in it can be read, and
// nothing is changed. The kernel itself looks up no new name in a directory in which a change
// waits.
func TestReviewLetsRead(t *testing.T) {
	mounted(t, copiedSetup(func(t *testing.T, dir string) {
		for i := range 20 {
			write(t, dir, fmt.Sprintf("dir%d/file", i), "content")
		}
	}), func(t *testing.T, c *client) {
		write(t, c.dir, "mine", "content")
		request[bool](t, c, "hold")
		var released atomic.Bool
		var changes sync.WaitGroup
		for name, change := range map[string]func() error{
			"write":  func() error { return os.WriteFile(c.at("dir0/file"), []byte("new"), 0) },
			"make":   func() error { return os.Mkdir(c.at("dir1/new"), 0o755) },
			"rename": func() error { return os.Rename(c.at("dir2/file"), c.at("dir2/renamed")) },
			"chmod":  func() error { return os.Chmod(c.at("dir3/file"), 0o600) },
			"remove": func() error { return os.Remove(c.at("dir4/file")) },
			"link":   func() error { return os.Link(c.at("mine"), c.at("dir5/link")) },
		} {
			changes.Go(func() {
				if err := change(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if !released.Load() {
					t.Errorf("%s: it did not wait", name)
				}
			})
		}
		for i := 10; i < 20; i++ { // nothing of them is known yet
			dir := fmt.Sprintf("dir%d", i)
			if names, err := readNames(c.at(dir)); err != nil || len(names) != 1 {
				t.Errorf("%s has %v, %v", dir, names, err)
			}
			if got := content(c.at(filepath.Join(dir, "file"))); got != "7:content" {
				t.Errorf("%s/file has %s", dir, got)
			}
		}
		released.Store(true)
		request[bool](t, c, "release")
		changes.Wait()
	})
}
