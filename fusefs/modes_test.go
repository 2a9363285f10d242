package fusefs

import (
	"os"
	"slices"
	"testing"
)

// A directory with read permission can be listed without search permission.
func TestListingNeedsNoSearch(t *testing.T) {
	mounted(t, setup{Host: func(t *testing.T, dir string) { write(t, dir, "dir/file", "") }}, func(t *testing.T, c *client) {
		fails(t, "chmod", os.Chmod(c.at("dir"), 0o444), 0)
		defer os.Chmod(c.at("dir"), 0o755)
		names, err := readNames(c.at("dir"))
		fails(t, "list", err, 0)
		if !slices.Equal(names, []string{"file"}) {
			t.Errorf("lists %q", names)
		}
	})
}
