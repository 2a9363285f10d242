package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/device"
)

// The names that are kept are bounded, however many there are, and those in use are what
// they were.
func TestCrowd(t *testing.T) {
	const files = 3 * minNodes
	mounted(t, setup{
		Memory: 1, Timeout: time.Hour,
		Host: func(t *testing.T, dir string) {
			for i := range files {
				write(t, dir, fmt.Sprintf("d%d/f%d", i%50, i), "")
			}
			for i := range minNodes {
				write(t, dir, fmt.Sprintf("more/f%d", i), "")
			}
			write(t, dir, "used/file", "content")
		},
		After: func(t *testing.T, s *Server, _ []Denial) {
			if s.tree.kernel.pruneUnsupported.Load() {
				t.Log("this kernel forgets names when it pleases only")
			}
		},
	}, func(t *testing.T, c *client) {
		f, err := os.Open(c.at("used/file"))
		ok(t, "open", err)
		defer f.Close()
		look := func() {
			for i := range files {
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(c.at(fmt.Sprintf("d%d/f%d", i%50, i)), &st))
			}
		}
		look()
		if !request[bool](t, c, "prunes") {
			t.Skip("this kernel forgets names when it pleases only")
		}
		more := 0
		for range 3 {
			look()
			becomes(t, "the names that are known", "few", func() string {
				more++ // others are backing.Forgotten when one comes
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(c.at(fmt.Sprintf("more/f%d", more%minNodes)), &st))
				if n := c.stats(t).Nodes; n > 2*minNodes {
					return fmt.Sprint(n)
				}
				return "few"
			})
		}
		b := make([]byte, 100)
		n, err := f.ReadAt(b, 0)
		if string(b[:n]) != "content" {
			t.Errorf("what is in use: %q, %v", b[:n], err)
		}
		if got := held(filepath.Join(c.dir, "used/file")); got != "content" {
			t.Errorf("what is in use: %q", got)
		}
	})
}

// Memory is divided so that something is left for everything.
func TestShares(t *testing.T) {
	for _, tt := range []struct {
		memory          int64
		nodes, handlers int
	}{
		{0, 1 << 20, device.MaxHandlers},
		{1, minNodes, minHandlers},
		{64 << 20, 1 << 16, 7},
		{1 << 50, 1 << 24, device.MaxHandlers},
	} {
		if nodes, handlers := shares(tt.memory); nodes != tt.nodes || handlers != tt.handlers {
			t.Errorf("%d bytes: %d nodes and %d handlers, want %d and %d", tt.memory, nodes, handlers, tt.nodes, tt.handlers)
		}
	}
}
