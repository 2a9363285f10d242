package fusefs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// moved returns what was asked between two counts.
func moved(before, after Stats) map[string]uint64 {
	d := map[string]uint64{}
	for name, n := range after.Messages {
		if n != before.Messages[name] {
			d[name] = n - before.Messages[name]
		}
	}
	return d
}

// walk does what find and git status do: it lists everything, looks at
// everything and reads every file.
func walk(t *testing.T, root string) (files int) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, err := os.Lstat(p); err != nil {
			return err
		}
		if d.Type().IsRegular() {
			files++
			_, err = os.ReadFile(p)
		} else if d.Type() == fs.ModeSymlink {
			_, err = os.Readlink(p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Within the timeout, what was done before is done again without a message:
// but for one question after each object's first use, because its time of
// access may have changed by it.
func TestWarmUseSendsNothing(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Hour,
		Rules:   []fakeRule{{"secret", perm.None}},
		Host: func(t *testing.T, dir string) {
			for i := range 200 {
				write(t, dir, fmt.Sprintf("dir%d/sub/file%d", i%10, i), "content")
				write(t, dir, fmt.Sprintf("dir%d/secret", i%10), "hidden")
			}
			if err := os.Symlink("dir0", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
		},
	}, func(t *testing.T, c *client) {
		start := c.stats(t)
		if n := walk(t, c.dir); n != 200 {
			t.Errorf("%d files, want 200", n)
		}
		cold := c.stats(t)
		t.Logf("cold: %v", moved(start, cold))
		walk(t, c.dir)
		d := moved(cold, c.stats(t))
		t.Logf("second: %v", d)
		// The kernel drops a cached page when it pleases, and asks for it again.
		if d["getattr"] > 222+d["read"] || d["lookup"]+d["readlink"] > 0 || d["readdirplus"] > 2 {
			t.Errorf("second time: %v, want only the attributes of what was read", d)
		}
		sendsNothing(t, c, "a warm walk", func() { walk(t, c.dir) })
		before := c.stats(t)
		for range 10 {
			_, err := os.Lstat(c.at("dir0/secret"))
			wantErrno(t, "stat of a hidden name", err, syscall.ENOENT)
			_, err = os.Lstat(c.at("dir0/absent"))
			wantErrno(t, "stat of an absent name", err, syscall.ENOENT)
		}
		// What is hidden is asked for each time, since each time is reported.
		if d := moved(before, c.stats(t)); d["lookup"] < 10 || d["lookup"] > 12 {
			t.Errorf("%d lookups, want one for the absent name and 10 for the hidden one", d["lookup"])
		}
	})
}

// sendsNothing fails if what is done always costs a message. Once it may: the
// kernel drops cached pages when it pleases.
func sendsNothing(t *testing.T, c *client, what string, do func()) {
	t.Helper()
	var d map[string]uint64
	for range 10 {
		before := c.stats(t)
		do()
		if d = moved(before, c.stats(t)); len(d) == 0 {
			return
		}
	}
	t.Errorf("%s: %v, want nothing", what, d)
}

// After new rules, for which the kernel forgets all names, a listing has the attributes of them
// again, as at first: who lists the tree ahead saves its users a message for each.
func TestListingAfterNewRules(t *testing.T) {
	const files = 300
	mounted(t, setup{
		Timeout: time.Hour, Parse: []string{"**=write"},
		Host: func(t *testing.T, dir string) {
			for i := range files {
				write(t, dir, fmt.Sprintf("dir%d/file%d", i%3, i), "")
			}
		},
	}, func(t *testing.T, c *client) {
		for i := range files { // else the kernel tells the server that it has backing.Forgotten them
			f, err := os.Open(c.at(fmt.Sprintf("dir%d/file%d", i%3, i)))
			ok(t, "open", err)
			defer f.Close()
		}
		c.setRules(t, "**=write", "absent=none")
		before := c.stats(t)
		for i := range 3 {
			names, err := readNames(c.at(fmt.Sprintf("dir%d", i)))
			ok(t, "list", err)
			for _, name := range names {
				_, err := os.Lstat(c.at(fmt.Sprintf("dir%d/%s", i, name)))
				ok(t, "stat", err)
			}
		}
		if d := moved(before, c.stats(t)); d["lookup"] > files/10 {
			t.Errorf("%d lookups of %d names that were listed", d["lookup"], files)
		}
	})
}

func TestWarmGitStatusSendsNothing(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	mounted(t, setup{Timeout: time.Hour}, func(t *testing.T, c *client) {
		repo := c.at("repo")
		run(t, c.dir, "git", "init", "-q", "repo")
		for i := range 100 {
			write(t, repo, fmt.Sprintf("dir%d/file%d", i%5, i), "content\n")
		}
		run(t, repo, "git", "add", ".")
		run(t, repo, "git", "commit", "-qm", "first")
		status := func() {
			if out := run(t, repo, "git", "--no-optional-locks", "status", "--porcelain"); out != "" {
				t.Errorf("status: %s", out)
			}
		}
		status()
		status()
		sendsNothing(t, c, "a warm git status", status)
	})
}

// What the host does is seen once the timeout is over.
func TestHostEditsAppear(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Millisecond,
		Host: func(t *testing.T, dir string) {
			write(t, dir, "file", "old content")
			write(t, dir, "gone", "")
			write(t, dir, "replaced", "old")
		},
	}, func(t *testing.T, c *client) {
		walk(t, c.dir)
		held, err := os.Open(c.at("replaced"))
		ok(t, "open", err)
		defer held.Close()
		old := make([]byte, 3)
		held.ReadAt(old, 0)

		write(t, c.host, "file", "new")
		write(t, c.host, "added", "")
		ok(t, "remove", os.Remove(filepath.Join(c.host, "gone")))
		write(t, c.host, "replacement", "another")
		ok(t, "replace", os.Rename(filepath.Join(c.host, "replacement"), filepath.Join(c.host, "replaced")))

		wait.Until(t, "the new content", func() bool {
			got, _ := os.ReadFile(c.at("file"))
			return string(got) == "new"
		})
		wait.Until(t, "the names", func() bool {
			names, _ := readNames(c.dir)
			return fmt.Sprint(names) == "[added file replaced]"
		})
		wait.Until(t, "the replacement", func() bool {
			got, _ := os.ReadFile(c.at("replaced"))
			return string(got) == "another"
		})
		n, err := held.ReadAt(old, 0)
		if string(old[:n]) != "old" {
			t.Errorf("who held the old file reads %q, %v", old[:n], err)
		}
	})
}

// A file that the host replaced before it was first read is the new one from
// the second attempt on, however long the kernel may cache the name.
func TestReplacedFilesAreLookedUpAgain(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Hour,
		Host:    func(t *testing.T, dir string) { write(t, dir, "file", "old") },
	}, func(t *testing.T, c *client) {
		_, err := os.Stat(c.at("file"))
		ok(t, "stat", err)
		write(t, c.host, "new", "another")
		ok(t, "replace", os.Rename(filepath.Join(c.host, "new"), filepath.Join(c.host, "file")))
		wait.Until(t, "the new file", func() bool {
			got, err := os.ReadFile(c.at("file"))
			if err != nil && errnoIn(err) != syscall.ESTALE {
				t.Error(err)
			}
			return string(got) == "another"
		})
	})
}
