package fusefs

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// A few descriptors are enough for many names, open files and orphans.
func TestFewDescriptorsAreEnough(t *testing.T) {
	mountedBoth(t, setup{
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
			ok(t, "open", err)
			open = append(open, f)
		}
		if st := c.stats(t); st.FDs > 24 {
			t.Errorf("%d descriptors for %d nodes, want about 16", st.FDs, st.Nodes)
		}
		ok(t, "rename", rename(c.at("a/b"), c.at("a/x")))
		for i, f := range open {
			got := make([]byte, 10)
			n, _ := f.ReadAt(got, 0)
			if string(got[:n]) != fmt.Sprint(i) {
				t.Fatalf("file %d holds %q", i, got[:n])
			}
			_, err := f.WriteAt([]byte("w"), 0)
			ok(t, "write", err)
			f.Close()
		}
		open = nil
		for i := range 300 {
			f, err := os.OpenFile(c.at(fmt.Sprintf("a/new%d", i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
			ok(t, "create", err)
			_, err = f.WriteString("x")
			ok(t, "write", err)
			open = append(open, f)
		}
		if st := c.stats(t); st.FDs > 24 {
			t.Errorf("%d descriptors for %d nodes, want about 16", st.FDs, st.Nodes)
		}
		for _, f := range open {
			f.Close()
		}
		ok(t, "remove", os.RemoveAll(c.at("a")))
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
		ok(t, "remove", os.RemoveAll(c.at("dir0")))
		for i := range 100 {
			os.RemoveAll(c.at(fmt.Sprintf("dir%d", i)))
		}
		wait.Until(t, "the nodes are forgotten", func() bool {
			st := c.stats(t)
			return st.Nodes == 1 && st.FDs == 1
		})
	})
}

// A fault fails the request that met it, closed, and nothing else.
func TestPanicsAreContained(t *testing.T) {
	mounted(t, setup{
		Panic: "bad",
		Host:  func(t *testing.T, dir string) { write(t, dir, "sub/good", "good") },
	}, func(t *testing.T, c *client) {
		for range 20 {
			_, err := os.Lstat(c.at("sub/bad"))
			wantErrno(t, "stat", err, syscall.EIO)
			wantErrno(t, "create", os.WriteFile(c.at("sub/bad"), nil, 0o644), syscall.EIO)
			wantErrno(t, "rename", rename(c.at("sub/good"), c.at("sub/bad")), syscall.EIO)
			ok(t, "rename", rename(c.at("sub/good"), c.at("sub/fine")))
			ok(t, "rename", rename(c.at("sub/fine"), c.at("sub/good")))
		}
		got, err := os.ReadFile(c.at("sub/good"))
		if string(got) != "good" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// Each refusal is reported, with the level that would have allowed it.
func TestDenialsAreReported(t *testing.T) {
	mountedBoth(t, setup{
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
