package fusefs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A private git directory can be removed as a whole, with the parts of the host's that it shows,
// which do not change.
func TestRemoveShown(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	mounted(t, setup{Git: true, Policy: writable, Host: hostRepository}, func(t *testing.T, c *client) {
		before := everything(t, c.host)
		shown := "nested/.git/" + HostsName + "/0"
		if got := inGit(t, c.at("nested"), "log", "--format=%s"); got != "nested" {
			t.Fatalf("log: %q", got)
		}
		for name, err := range map[string]error{
			"make a file":        os.WriteFile(c.at(shown+"/objects/x"), nil, 0o644),
			"make a directory":   os.Mkdir(c.at(shown+"/objects/x"), 0o755),
			"make a number":      os.Mkdir(c.at("nested/.git/"+HostsName+"/7"), 0o755),
			"rename":             os.Rename(c.at(shown+"/objects/info"), c.at(shown+"/objects/y")),
			"rename it":          os.Rename(c.at("nested/.git/"+HostsName), c.at("nested/.git/x")),
			"remove what it has": unix.Rmdir(c.at("nested/.git/" + HostsName)),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		if err := os.Link(c.at(shown+"/objects/info"), c.at("nested/x")); err == nil {
			t.Error("a link of a directory")
		}
		for _, name := range []string{"nested", ".git"} {
			if out, err := exec.Command("rm", "-r", c.at(name)).CombinedOutput(); err != nil {
				t.Errorf("rm: %v: %s", err, out)
			}
			if _, err := os.Lstat(c.at(name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got %v, want fs.ErrNotExist", name, err)
			}
		}
		if d := cmp.Diff(before, everything(t, c.host)); d != "" {
			t.Errorf("the host's git directories are others:\n%s", d)
		}
		inGit(t, c.dir, "init", "-q", "-b", "main")
		inGit(t, c.dir, "add", ".")
		inGit(t, c.dir, "commit", "-qm", "new")
	})
}
