package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// moved is the number of files in the directory that TestKilledMove moves.
const moved = 4000

// TestKilledMove kills the tree server while it moves a directory to where other rules hold: when
// it makes the new directory, has put it in place, and removes the former one. No file is lost,
// and once the sandbox has started again, or is gone, no temporary name is left.
func TestKilledMove(t *testing.T) {
	moments := []struct {
		mask uint32
		name int // of cow.MoveTemps
	}{{unix.IN_CREATE, 0}, {unix.IN_MOVED_FROM, 0}, {unix.IN_MOVED_TO, 1}}
	left := 0
	for _, m := range moments {
		for what, end := range map[string]func(rt *local.Runtime, id string) error{
			"start":   func(rt *local.Runtime, id string) error { return rt.Start(t.Context(), id) },
			"destroy": func(rt *local.Runtime, id string) error { return rt.Destroy(t.Context(), id) },
		} {
			t.Run(fmt.Sprintf("%s after %#x", what, m.mask), func(t *testing.T) {
				rt, _, codebase := newRuntime(t)
				dirs(t, codebase, "shown")
				for i := range 10 {
					dirs(t, codebase, fmt.Sprintf("a/d%d", i))
				}
				for i := range moved {
					write(t, codebase, fmt.Sprintf("a/d%d/f%d", i%10, i), strconv.Itoa(i))
				}
				write(t, codebase, "shown/x", "")
				rules := append(everything(perm.Write),
					perm.Rule{Pattern: ".env", Level: perm.None}, perm.Rule{Pattern: "/shown/**", Level: perm.Write, Priority: 1})
				s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, Permissions: rules})
				if err != nil {
					t.Fatal(err)
				}
				if err := rt.Start(t.Context(), s.ID); err != nil {
					t.Fatal(err)
				}
				temp := cow.MoveTemps(s.ID)
				kill := killAt(t, codebase, m.mask, temp[m.name], treeServer(t, s.ID))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { // ends with the sandbox
					_, _ = rt.Exec(ctx, s.ID, &runtime.ExecRequest{Command: []string{"mv", "a", "shown/a"}})
				}()
				if err := kill(); err != nil {
					t.Fatal(err)
				}
				if err := rt.Stop(t.Context(), s.ID); err != nil && !errors.Is(err, runtime.ErrConflict) {
					t.Log(err) // it has ended by itself
				}
				for _, name := range temp {
					if _, err := os.Lstat(filepath.Join(codebase, name)); err == nil {
						left++
					}
				}
				if err := end(rt, s.ID); err != nil {
					t.Fatal(err)
				}
				var found []int
				err = filepath.WalkDir(codebase, func(p string, e fs.DirEntry, err error) error {
					if err == nil && strings.HasPrefix(e.Name(), cow.TempPrefix) {
						t.Errorf("%s stays", p)
					}
					if n, ok := strings.CutPrefix(filepath.Base(p), "f"); ok && err == nil {
						i, _ := strconv.Atoi(n)
						found = append(found, i)
					}
					return err
				})
				slices.Sort(found)
				if n := len(slices.Compact(found)); err != nil || n != moved {
					t.Errorf("%d of %d files, %v", n, moved, err)
				}
			})
		}
	}
	if left == 0 && !t.Failed() {
		t.Error("no kill came while something had a temporary name")
	}
}

func dirs(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// treeServer returns the process that serves the sandbox's tree.
func treeServer(t *testing.T, id string) int {
	t.Helper()
	for _, line := range processes(t, id) {
		number, cmdline, _ := strings.Cut(line, " ")
		if pid, err := strconv.Atoi(number); err == nil && strings.HasPrefix(cmdline, "wolffia tree") {
			return pid
		}
	}
	t.Fatal("no tree server runs")
	return 0
}

// killAt returns a function that kills a process once something happens to a name in a directory.
func killAt(t *testing.T, dir string, mask uint32, name string, pid int) func() error {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		t.Fatal(err)
	}
	return func() error {
		for buf := make([]byte, 64<<10); ; {
			n, err := f.Read(buf)
			if err != nil {
				return err
			}
			if strings.Contains(string(buf[:n]), name+"\x00") {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// TestKilledMoveKeepsLastNames: what has only a temporary name is not removed, and is said.
func TestKilledMoveKeepsLastNames(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := create(t, rt, codebase)
	temp := cow.MoveTemps(id)
	dirs(t, codebase, temp[0]+"/d")
	write(t, codebase, temp[0]+"/d/last", "kept\n")
	write(t, codebase, temp[0]+"/d/second", "")
	if err := os.Link(filepath.Join(codebase, temp[0], "d/second"), filepath.Join(codebase, "first")); err != nil {
		t.Fatal(err)
	}
	err := rt.Destroy(t.Context(), id)
	if err == nil || !strings.Contains(err.Error(), temp[0]) {
		t.Errorf("destroy: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(codebase, temp[0], "d/last")); string(b) != "kept\n" {
		t.Errorf("the last name has %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(codebase, temp[0], "d/second")); err == nil {
		t.Error("the second name stays")
	}
}
