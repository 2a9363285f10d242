package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// run runs a program in dir and returns what it printed.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_CONFIG_NOSYSTEM=1",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: got err %v, out %s; want err == nil", name, args, err, out)
	}
	return string(out)
}

func TestGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	mountedBoth(t, setup{}, func(t *testing.T, c *client) {
		repo := c.at("repo")
		run(t, c.dir, "git", "init", "-q", "repo")
		for i := range 50 {
			write(t, repo, fmt.Sprintf("dir%d/file%d", i%5, i), strings.Repeat("line\n", i))
		}
		run(t, repo, "git", "add", ".")
		run(t, repo, "git", "commit", "-q", "-m", "first")
		if out := run(t, repo, "git", "status", "--porcelain"); out != "" {
			t.Errorf("status after the commit: %s", out)
		}
		write(t, repo, "dir0/file0", "changed")
		if out := run(t, repo, "git", "status", "--porcelain"); out != " M dir0/file0\n" {
			t.Errorf("status after a change: %q", out)
		}
		run(t, repo, "git", "stash", "-q")
		run(t, repo, "git", "stash", "pop", "-q")
		run(t, repo, "git", "checkout", "-q", "-b", "branch")
		run(t, repo, "git", "commit", "-qam", "second")
		run(t, repo, "git", "checkout", "-q", "-")
		run(t, repo, "git", "gc", "-q")
		run(t, repo, "git", "fsck", "--strict")
		run(t, c.dir, "git", "clone", "-q", "repo", "clone")
		// The host's git agrees, though it sees another owner.
		hostRepo := c.behind("repo")
		if out := run(t, hostRepo, "git", "-c", "safe.directory=*", "status", "--porcelain"); out != " M dir0/file0\n" && out != "" {
			t.Errorf("status on the host: %q", out)
		}
		run(t, c.dir, "rm", "-rf", "repo", "clone")
	})
}

func TestSqlite(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip(err)
	}
	mountedBoth(t, setup{}, func(t *testing.T, c *client) {
		for _, mode := range []string{"delete", "wal"} {
			db := mode + ".db"
			run(t, c.dir, "sqlite3", db, "PRAGMA journal_mode="+mode, "CREATE TABLE t(x)")
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for j := range 10 {
						run(t, c.dir, "sqlite3", "-cmd", ".timeout 20000", db,
							fmt.Sprintf("INSERT INTO t VALUES(%d)", i*100+j))
					}
				})
			}
			wg.Wait()
			if n := run(t, c.dir, "sqlite3", db, "SELECT count(*) FROM t; PRAGMA integrity_check"); n != "40\nok\n" {
				t.Errorf("%s: got %q, want %q", mode, n, "40\nok\n")
			}
		}
	})
}
