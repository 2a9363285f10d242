package local_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// copiedSandbox returns a sandbox with a copied codebase, which runs.
func copiedSandbox(t *testing.T, rt *local.Runtime, codebase string, rules ...perm.Rule) string {
	t.Helper()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, CopyOnWrite: true, Permissions: append(rules, everything(perm.Write)...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Destroy(context.Background(), s.ID); err != nil && runtime.Class(err) != runtime.ErrNotFound {
			t.Error(err)
		}
	})
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// Changes are the same while the sandbox runs and when it is stopped.
func TestReview(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	shimtest.Review(t, shimtest.Of(bwrap.Backend()).Fresh(t))
}

// A fork has the changes of its parent's at one moment, and goes its own way.
func TestFork(t *testing.T) {
	rt, dir, codebase := newRuntime(t)
	write(t, codebase, "a", "a\n")
	id := copiedSandbox(t, rt, codebase, perm.Rule{Pattern: "hidden", Level: perm.None})
	if out, code := sh(t, rt, id, "echo changed > a; echo new > b; echo 0 > first; echo 0 > second"); code != 0 {
		t.Fatal(out)
	}
	// A program that always writes one file before the other.
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > first.new; mv first.new first; echo $i > second.new; mv second.new second; done"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		forks, err := rt.Fork(t.Context(), id, runtime.ForkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fork := forks[0]
		if err := rt.Start(t.Context(), fork.ID); err != nil {
			t.Fatal(err)
		}
		out, code := sh(t, rt, fork.ID, `cat a b; read f < first; read s < second; [ -z "$f" ] || [ "$f" -ge "${s:-0}" ] || echo "$f $s"; echo fork > b`)
		if code != 0 || out != "changed\nnew\n" {
			t.Errorf("the fork has %q", out)
		}
		if err := rt.Destroy(t.Context(), fork.ID); err != nil {
			t.Error(err)
		}
	}
	_ = p.Signal(syscall.SIGKILL)
	_ = p.Close()
	if out, _ := sh(t, rt, id, "cat b"); out != "new\n" {
		t.Errorf("the parent has %q", out)
	}
	if list, err := rt.Snapshots(t.Context(), id); err != nil || len(list) > 0 {
		t.Errorf("forks leave %+v %v", list, err)
	}
	made, err := rt.Snapshot(t.Context(), id, "one", runtime.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := rt.Snapshots(t.Context(), id); err != nil || len(list) != 1 || list[0] != *made {
		t.Errorf("%+v was made, and there is %+v %v", made, list, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "sandboxes", id, "cow", "*"))
	slices.Sort(left)
	if err != nil || len(left) != 5 {
		t.Errorf("beside the changes: %v %v", left, err)
	}
}

// A sandbox on the host's directory has no changes.
func TestReviewOfTheHostsDirectory(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := create(t, rt, codebase)
	if _, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{}); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("changes: %v", err)
	}
	if _, err := rt.Snapshots(t.Context(), id); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("snapshots: %v", err)
	}
}
