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

	"wolffia/perm"
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
				fails(t, "stat", err, 0)
			}
			_, err := os.ReadFile(c.at("r"))
			fails(t, "read", err, 0)
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
				fails(t, step.want, err, unix.EACCES)
			}
		}
	})
}

// A system call is judged by what it would need.
func TestAttempts(t *testing.T) {
	for _, test := range []struct {
		nr   uint64
		args [6]uint64
		want syscallIntent
		ok   bool
	}{
		{unix.SYS_OPENAT, [6]uint64{2: unix.O_RDONLY}, syscallIntent{op: "open-read", need: perm.Read}, true},
		{unix.SYS_OPENAT, [6]uint64{2: unix.O_RDONLY | unix.O_TRUNC}, syscallIntent{op: "open-write", need: perm.Write}, true},
		{unix.SYS_OPENAT, [6]uint64{2: unix.O_PATH}, syscallIntent{op: "open-read", need: perm.Read}, false},
		{unix.SYS_UNLINKAT, [6]uint64{}, syscallIntent{op: "unlink", need: perm.Write, name: true}, true},
		{unix.SYS_NEWFSTATAT, [6]uint64{}, syscallIntent{}, false},
		{unix.SYS_FACCESSAT2, [6]uint64{}, syscallIntent{}, false},
		{1 << 40, [6]uint64{}, syscallIntent{}, false},
	} {
		if got, ok := intentOf(test.nr, test.args); got != test.want || ok != test.ok {
			t.Errorf("system call %d %x: %+v, %v", test.nr, test.args, got, ok)
		}
	}
	if _, _, ok := systemCall(1 << 31); ok {
		t.Error("a thread that is not there waits")
	}
}
