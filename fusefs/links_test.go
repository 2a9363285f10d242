package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A change by one name of a file shows by all its names at once. Locks made by link(2) rely on it:
// their owner checks the link count of the file.
func TestLinksAgreeAtOnce(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Hour,
		Host: func(t *testing.T, dir string) {
			for i := range 100 {
				write(t, dir, fmt.Sprintf("new%d", i), "old")
				write(t, dir, fmt.Sprintf("old%d", i), "old")
				p := filepath.Join(dir, fmt.Sprintf("old%d", i))
				if err := os.Link(p, p+"-too"); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		t.Run("Made", func(t *testing.T) {
			stale := 0
			for i := range 100 {
				p := c.at(fmt.Sprintf("new%d", i))
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(p, &st))
				ok(t, "link", unix.Link(p, p+"-too"))
				ok(t, "stat", unix.Stat(p, &st))
				if st.Nlink != 2 {
					stale++
				}
			}
			if stale > 0 {
				t.Errorf("%d of 100 files had one link after link(2)", stale)
			}
		})
		t.Run("Found", func(t *testing.T) {
			stale := 0
			for i := range 100 {
				p := c.at(fmt.Sprintf("old%d", i))
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(p, &st))
				ok(t, "truncate by the other name", unix.Truncate(p+"-too", 100))
				ok(t, "stat", unix.Stat(p, &st))
				if st.Size != 100 {
					stale++
				}
			}
			if stale > 0 {
				t.Errorf("%d of 100 files had the old size", stale)
			}
		})
		t.Run("Unlinked", func(t *testing.T) {
			a, b := c.at("one"), c.at("other")
			write(t, c.dir, "one", "old")
			ok(t, "link", unix.Link(a, b))
			f, err := os.OpenFile(b, os.O_RDWR, 0)
			ok(t, "open", err)
			defer f.Close()
			ok(t, "unlink", unix.Unlink(b))
			for i := range 20 {
				_, err := os.ReadFile(a)
				ok(t, "read", err)
				want := fmt.Sprint("written ", i)
				_, err = f.WriteAt([]byte(want), 0)
				ok(t, "write", err)
				if got, _ := os.ReadFile(a); string(got) != want {
					t.Fatalf("after %q by a descriptor, the other name holds %q", want, got)
				}
			}
		})
	})
}
