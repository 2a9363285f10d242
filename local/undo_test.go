package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/statedir"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// TestNoTemporaryNamesStay ends a sandbox in the middle of an apply: the codebase has no temporary name once the sandbox is
// stopped or removed, whatever was killed before, and each file has its whole content.
func TestNoTemporaryNamesStay(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, rt *local.Runtime, state, id string){
		"stopped": func(t *testing.T, rt *local.Runtime, _, id string) {
			if err := rt.Stop(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"destroyed": func(t *testing.T, rt *local.Runtime, _, id string) {
			if err := rt.Destroy(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"killed and destroyed": func(t *testing.T, rt *local.Runtime, _, id string) {
			killParts(t, id, []string{"wolffia tree"})
			if err := rt.Destroy(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"killed, its time over": func(t *testing.T, rt *local.Runtime, state, id string) {
			killParts(t, id, []string{"wolffia tree"})
			if err := rt.Stop(t.Context(), id); err != nil {
				t.Error(err)
			}
			over := &statedir.Status{State: runtime.StateStopped, Expired: runtime.ExpiredTTL}
			if err := statedir.SetStatus(filepath.Join(state, "sandboxes", id, "run"), over); err != nil {
				t.Error(err)
			}
			if all, err := rt.Prune(t.Context(), false); err != nil || len(all) != 1 {
				t.Errorf("pruned %+v, %v", all, err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			for files := 2000; !applyInterrupted(t, end, files); files *= 4 { // on a busy machine the apply is done first
				if files > 100_000 {
					t.Fatal("the apply had ended before the sandbox did")
				}
			}
		})
	}
}

// applyInterrupted ends a sandbox once its apply of so many files has begun, and reports whether that was in the middle.
func applyInterrupted(t *testing.T, end func(t *testing.T, rt *local.Runtime, state, id string), files int) (interrupted bool) {
	rt, state, codebase := newRuntime(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase, CopyOnWrite: true, Permissions: everything(perm.Write), TTL: runtime.MaxLifetime,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, rt, s.ID, "i=0; while [ $i -lt "+strconv.Itoa(files)+" ]; do echo whole >f$i; i=$((i+1)); done"); code != 0 {
		t.Fatal(out)
	}
	writing := firstTemporary(t, codebase)
	applied := make(chan error, 1)
	go func() { // ends with the sandbox's tree server
		_, err := rt.Apply(t.Context(), s.ID, runtime.ApplyOptions{})
		applied <- err
	}()
	if err := writing(); err != nil {
		t.Fatal(err)
	}
	end(t, rt, state, s.ID)
	interrupted = <-applied != nil
	entries, err := os.ReadDir(codebase)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), cow.TempPrefix) {
			t.Fatalf("%s stays in the codebase", e.Name())
		}
		if b, err := os.ReadFile(filepath.Join(codebase, e.Name())); err != nil || string(b) != "whole\n" {
			t.Fatalf("%s has %q, %v", e.Name(), b, err)
		}
	}
	return interrupted
}

// firstTemporary returns a function that waits until something is made in a directory.
func firstTemporary(t *testing.T, dir string) (wait func() error) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	return func() error {
		n, err := f.Read(make([]byte, 64<<10))
		if err == nil && n == 0 {
			err = errors.New("the watch has ended")
		}
		return err
	}
}

// TestDestroyTellsOfAnUnfinishedApply: a sandbox goes even if what its apply has left cannot be put right.
func TestDestroyTellsOfAnUnfinishedApply(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	for _, there := range []bool{true, false} {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, CopyOnWrite: true, Permissions: everything(perm.Write)})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(state, "sandboxes", s.ID, "cow"), "undo", "{}")
		if err := os.Remove(codebase); err != nil {
			t.Fatal(err)
		}
		if there {
			write(t, filepath.Dir(codebase), filepath.Base(codebase), "no directory\n")
		}
		err = rt.Destroy(t.Context(), s.ID)
		if there != (err != nil) || there && !strings.Contains(err.Error(), codebase) {
			t.Errorf("the codebase's path exists: %v; destroy: %v", there, err)
		}
		if _, err := rt.Get(t.Context(), s.ID); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("get: %v", err)
		}
		if there {
			if err := errors.Join(os.Remove(codebase), os.Mkdir(codebase, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
