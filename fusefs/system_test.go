package fusefs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A view of the host's system shows its modes without set-id bits. What was used once stays as it was,
// whatever the host puts in its place: the kernel is never told to look again, which an overlay above
// would take for ESTALE.
func TestSystemView(t *testing.T) {
	host := func(t *testing.T, dir string) {
		write(t, dir, "used", "v0")
		write(t, dir, "later", "v0")
		write(t, dir, "set-id", "v0")
		ok(t, "chmod", os.Chmod(filepath.Join(dir, "set-id"), 0o751|os.ModeSetuid))
	}
	mounted(t, setup{NoWatch: true, Timeout: 100 * 365 * 24 * time.Hour, System: true, Host: host}, func(t *testing.T, c *client) {
		if st, err := os.Lstat(c.at("set-id")); err != nil || st.Mode() != 0o751 {
			t.Errorf("a program of root's: %v, %v", st, err)
		}
		read := func(name, want string) {
			t.Helper()
			if got, err := os.ReadFile(c.at(name)); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		}
		read("used", "v0")
		for _, name := range []string{"used", "later"} {
			write(t, c.host, name+".new", "v1")
			ok(t, "rename on the host", os.Rename(filepath.Join(c.host, name+".new"), filepath.Join(c.host, name)))
		}
		read("used", "v0")
		read("later", "v1")
		ok(t, "remove on the host", os.Remove(filepath.Join(c.host, "used")))
		read("used", "v0")
	})
}
