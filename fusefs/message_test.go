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

	"golang.org/x/sys/unix"

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
		settled := c.stats(t)
		d := moved(cold, settled)
		t.Logf("second: %v", d)
		if d["getattr"] > 222 || len(d) != 1 {
			t.Errorf("second time: %v, want only the attributes of what was read", d)
		}
		walk(t, c.dir)
		for range 10 {
			_, err := os.Lstat(c.at("dir0/secret"))
			fails(t, "stat of a hidden name", err, syscall.ENOENT)
			_, err = os.Lstat(c.at("dir0/absent"))
			fails(t, "stat of an absent name", err, syscall.ENOENT)
		}
		warm := c.stats(t)
		d = moved(settled, warm)
		if d["lookup"] != 2 {
			t.Errorf("%d lookups, want one for each name that is not there", d["lookup"])
		}
		delete(d, "lookup")
		if len(d) != 0 {
			t.Errorf("warm: %v, want nothing", d)
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
		before := c.stats(t)
		status()
		if d := moved(before, c.stats(t)); len(d) != 0 {
			t.Errorf("warm git status: %v, want nothing", d)
		}
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
		fails(t, "open", err, 0)
		defer held.Close()
		old := make([]byte, 3)
		held.ReadAt(old, 0)

		write(t, c.host, "file", "new")
		write(t, c.host, "added", "")
		fails(t, "remove", os.Remove(filepath.Join(c.host, "gone")), 0)
		write(t, c.host, "replacement", "another")
		fails(t, "replace", os.Rename(filepath.Join(c.host, "replacement"), filepath.Join(c.host, "replaced")), 0)

		eventually(t, "the new content", func() bool {
			got, _ := os.ReadFile(c.at("file"))
			return string(got) == "new"
		})
		eventually(t, "the names", func() bool {
			names, _ := readNames(c.dir)
			return fmt.Sprint(names) == "[added file replaced]"
		})
		eventually(t, "the replacement", func() bool {
			got, _ := os.ReadFile(c.at("replaced"))
			return string(got) == "another"
		})
		n, err := held.ReadAt(old, 0)
		if string(old[:n]) != "old" {
			t.Errorf("who held the old file reads %q, %v", old[:n], err)
		}
	})
}

// eventually fails if ok does not become true in time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if ok() {
			return
		}
	}
	t.Errorf("%s: not seen in time", what)
}

// A few descriptors are enough for many names, open files and orphans.
func TestFewDescriptorsAreEnough(t *testing.T) {
	mounted(t, setup{
		FDs: 16,
		Host: func(t *testing.T, dir string) {
			for i := range 500 {
				write(t, dir, fmt.Sprintf("a/b/c%d/d/file%d", i%50, i), fmt.Sprint(i))
			}
		},
	}, func(t *testing.T, c *client) {
		if n := walk(t, c.dir); n != 500 {
			t.Errorf("%d files", n)
		}
		var open []*os.File
		for i := range 300 {
			f, err := os.OpenFile(c.at(fmt.Sprintf("a/b/c%d/d/file%d", i%50, i)), os.O_RDWR, 0)
			fails(t, "open", err, 0)
			open = append(open, f)
		}
		if st := c.stats(t); st.FDs > 24 {
			t.Errorf("%d descriptors for %d nodes, want about 16", st.FDs, st.Nodes)
		}
		fails(t, "rename", rename(c.at("a/b"), c.at("a/x")), 0)
		for i, f := range open {
			got := make([]byte, 10)
			n, _ := f.ReadAt(got, 0)
			if string(got[:n]) != fmt.Sprint(i) {
				t.Fatalf("file %d holds %q", i, got[:n])
			}
			_, err := f.WriteAt([]byte("w"), 0)
			fails(t, "write", err, 0)
			f.Close()
		}
		fails(t, "remove", os.RemoveAll(c.at("a")), 0)
	})
}

func TestForgetReleases(t *testing.T) {
	mounted(t, setup{Host: func(t *testing.T, dir string) {
		for i := range 100 {
			write(t, dir, fmt.Sprintf("dir%d/file", i), "x")
		}
	}}, func(t *testing.T, c *client) {
		walk(t, c.dir)
		if st := c.stats(t); st.Nodes != 201 {
			t.Errorf("%d nodes, want 201", st.Nodes)
		}
		fails(t, "remove", os.RemoveAll(c.at("dir0")), 0)
		for i := range 100 {
			os.RemoveAll(c.at(fmt.Sprintf("dir%d", i)))
		}
		eventually(t, "the nodes are forgotten", func() bool {
			st := c.stats(t)
			return st.Nodes == 1 && st.FDs == 1
		})
	})
}

// Close ends the service while a client is waiting for the next answer.
func TestCloseEndsTheService(t *testing.T) {
	mounted(t, setup{Host: func(t *testing.T, dir string) { write(t, dir, "file", "x") }}, func(t *testing.T, c *client) {
		_, err := os.ReadFile(c.at("file"))
		fails(t, "read", err, 0)
		if !request[bool](t, c, "close") {
			t.Error("Close failed")
		}
		_, err = os.Lstat(c.at("other"))
		fails(t, "stat after Close", err, syscall.ENOTCONN)
		_, err = unix.Open(c.dir, unix.O_RDONLY, 0)
		fails(t, "open after Close", err, syscall.ENOTCONN)
	})
}

// Each refusal is told, with what would have allowed it.
func TestDenialsAreReported(t *testing.T) {
	mounted(t, setup{
		Rules: levelRules, Host: levelHost,
		After: func(t *testing.T, s *Server, denials []Denial) {
			type key struct {
				op, path string
				errno    syscall.Errno
			}
			seen := map[key]Denial{}
			for _, d := range denials {
				seen[key{d.Op, d.Path, d.Errno}] = d
				if d.PID == 0 || d.UID != clientUID {
					t.Errorf("%+v: no caller", d)
				}
			}
			for _, want := range []key{
				{"lookup", ".env", unix.ENOENT},
				{"create", "write/.env", unix.EACCES},
				{"unlink", "ro.txt", unix.EACCES},
				{"setattr", "list.txt", unix.EACCES},
			} {
				d, ok := seen[want]
				if !ok {
					t.Errorf("%+v: not reported", want)
				}
				if ok && d.Op != "lookup" && d.Need != perm.Write {
					t.Errorf("%+v: needs %v", want, d.Need)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		os.Lstat(c.at(".env"))
		os.WriteFile(c.at("write/.env"), nil, 0o644)
		os.Remove(c.at("ro.txt"))
		os.Chmod(c.at("list.txt"), 0o777)
	})
}
