package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the kernel refuses by the modes is reported too, and nothing else is.
func TestKernelsOwnRefusalsAreReported(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Hour,
		Parse:   []string{"**=write", "r*=read", "v*=view", "/ro/=read"},
		Host: func(t *testing.T, dir string) {
			for _, name := range []string{"r", "v", "w", "closed", "ro/file", "dir/rsub/x"} {
				write(t, dir, name, "#!/bin/sh\n")
				if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
				t.Fatal(err)
			}
		},
	}, func(t *testing.T, c *client) {
		walk := func() {
			for _, name := range []string{"r", "v", "w", "ro", "ro/file", "closed"} {
				_, err := os.Stat(c.at(name))
				ok(t, "stat", err)
			}
			_, err := os.ReadFile(c.at("r"))
			ok(t, "read", err)
		}
		walk()
		open := func(name string, flags int) func() error {
			return func() error {
				f, err := os.OpenFile(c.at(name), flags, 0o644)
				if err == nil {
					f.Close()
				}
				return err
			}
		}
		for i, step := range []struct {
			do   func() error
			want string
		}{
			{open("r", os.O_RDONLY), ""},
			{open("w", os.O_RDWR), ""},
			{open("closed", os.O_RDONLY), ""}, // refused, but not by the rules
			{open("r", os.O_WRONLY), "open-write r read write"},
			{open("r", os.O_WRONLY), "open-write r read write"},
			{open("r", os.O_RDWR|os.O_APPEND), "open-write r read write"},
			{open("v", os.O_RDONLY), "open-read v view read"},
			{open("v", os.O_RDWR), "open-write v view write"},
			{open("v", unix.O_PATH), ""},
			{open("ro/new", os.O_CREATE|os.O_WRONLY), "create ro read write"},
			{open("ro/file", os.O_CREATE|os.O_WRONLY), "open-write ro/file read write"},
			{func() error { return os.Mkdir(c.at("ro/new"), 0o755) }, "mkdir ro read write"},
			{func() error { return os.Remove(c.at("ro/file")) }, "unlink ro read write"},
			{func() error { return os.Rename(c.at("ro/file"), c.at("new")) }, "rename ro read write"},
			{func() error { return os.Symlink("x", c.at("ro/new")) }, "symlink ro read write"},
			{func() error { return exec.Command(c.at("r")).Run() }, ""},
			{func() error { return exec.Command(c.at("v")).Run() }, "execute v view read"},
			{func() error { walk(); return nil }, ""},
		} {
			before := len(request[[]Denial](t, c, "denials"))
			err := step.do()
			var got []string
			for _, d := range request[[]Denial](t, c, "denials")[before:] {
				got = append(got, fmt.Sprint(d.Op, " ", d.Path, " ", d.Level, " ", d.Need))
				if d.PID == 0 || d.Errno != unix.EACCES {
					t.Errorf("%d: pid %d, errno %v", i, d.PID, d.Errno)
				}
			}
			// Go removes with two system calls.
			if got = slices.Compact(got); step.want == "" && len(got) > 0 || step.want != "" && !slices.Equal(got, []string{step.want}) {
				t.Errorf("step %d (%v): reported %q, want %q", i, err, got, step.want)
			}
			if step.want != "" {
				wantErrno(t, step.want, err, unix.EACCES)
			}
		}
	})
}
