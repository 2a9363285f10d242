package fusefs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// posixKnown are the tests of go-fuse's suite that do not pass, and why.
var posixKnown = map[string]string{
	"FcntlFlockLocksFile": "fails on a plain directory as well: both locks belong to one process",
}

func TestPosix(t *testing.T) {
	mounted(t, setup{}, func(t *testing.T, c *client) {
		for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
			t.Run(name, func(t *testing.T) {
				if why := posixKnown[name]; why != "" {
					t.Skip(why)
				}
				dir := c.at(name)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				posixtest.All[name](t, dir)
			})
		}
		if _, err := os.Stat(filepath.Join(c.host, "FileBasic")); err != nil {
			t.Error(err)
		}
	})
}
