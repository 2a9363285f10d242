package fusefs

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// A directory with read permission can be listed without search permission.
func TestListingNeedsNoSearch(t *testing.T) {
	mounted(t, setup{Host: func(t *testing.T, dir string) { write(t, dir, "dir/file", "") }}, func(t *testing.T, c *client) {
		ok(t, "chmod", os.Chmod(c.at("dir"), 0o444))
		defer os.Chmod(c.at("dir"), 0o755)
		names, err := readNames(c.at("dir"))
		ok(t, "list", err)
		if !slices.Equal(names, []string{"file"}) {
			t.Errorf("lists %q", names)
		}
	})
}

// A file that could only be written at first can be read once its mode allows that.
func TestWriteOnlyFile(t *testing.T) {
	mountedBoth(t, setup{Parse: []string{"**=write"}, Host: func(t *testing.T, dir string) {
		write(t, dir, "f", "old")
		ok(t, "chmod", os.Chmod(filepath.Join(dir, "f"), 0o200))
	}}, func(t *testing.T, c *client) {
		if c.copied { // from the host's, which cannot be read, no copy is made
			ok(t, "remove", os.Remove(c.at("f")))
			ok(t, "make", os.WriteFile(c.at("f"), []byte("old"), 0o200))
		}
		f, err := os.OpenFile(c.at("f"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = f.WriteString("new")
		ok(t, "write", err)
		_, err = os.ReadFile(c.at("f"))
		wantErrno(t, "read", err, syscall.EACCES)
		ok(t, "chmod", os.Chmod(c.at("f"), 0o644))
		if got := content(c.at("f")); got != "6:oldnew" {
			t.Errorf("it has %s", got)
		}
		_, err = f.WriteString("er")
		ok(t, "write", err)
		if got := content(c.at("f")); got != "8:oldnewer" {
			t.Errorf("it has %s", got)
		}
	})
}
