package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// copiedSandbox returns a sandbox with a copied codebase, which runs.
func copiedSandbox(t *testing.T, rt *local.Runtime, codebase string, rules ...perm.Rule) string {
	t.Helper()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, CopyOnWrite: true, Permissions: append(rules, everything(perm.Write)...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Destroy(t.Context(), s.ID) })
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func kinds(changes []runtime.Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(string(c.Kind[0]) + " " + c.Path)
		if c.From != "" {
			b.WriteString(" from " + c.From)
		}
		for mark, why := range map[string]string{"!": c.Conflict, "x": c.Denied, "-": c.Unapplied} {
			if why != "" {
				b.WriteString(mark)
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if errors.Is(err, os.ErrNotExist) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Changes are the same while the sandbox runs and when it is stopped; what is applied, discarded and left is right in
// both, and the running sandbox sees it at once.
func TestReview(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for _, dir := range []string{"dir", "old"} {
		if err := os.Mkdir(filepath.Join(codebase, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c", "dir/f", "dir/g", "old/x"} {
		write(t, codebase, name, name+"\n")
	}
	id := copiedSandbox(t, rt, codebase)
	must := func(script, want string) {
		t.Helper()
		if out, code := sh(t, rt, id, script); code != 0 || out != want {
			t.Fatalf("%s: %d %q, want %q", script, code, out, want)
		}
	}
	must("echo A > a; rm b; mv dir moved; echo F > moved/f; mkdir new; echo n > new/n; rm -r old; mkdir -p .git; echo x > .git/config.lock 2>/dev/null; rm -rf .git", "")
	changes := func(want string, paths ...string) {
		t.Helper()
		got, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{Paths: paths})
		if err != nil || kinds(got) != want {
			t.Fatalf("changes %s, want %s: %v", kinds(got), want, err)
		}
	}
	const all = "m a; d b; r moved from dir; m moved/f; a new; a new/n; d old; "
	changes(all)
	changes("a new; a new/n; ", "new")
	if _, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{Paths: []string{"c"}}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("of a path without a change: %v", err)
	}
	var diff bytes.Buffer
	if err := rt.Diff(t.Context(), id, runtime.DiffOptions{Paths: []string{"a"}}, &diff); err != nil || diff.String() != "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n" {
		t.Errorf("diff: %q %v", diff.String(), err)
	}
	if read(t, codebase, "a") != "a\n" || read(t, codebase, "b") != "b\n" || read(t, codebase, "new/n") != "nothing" {
		t.Error("the host has changed before apply")
	}
	snapshot, err := rt.Snapshot(t.Context(), id, "one")
	if err != nil || snapshot.Name != "one" {
		t.Fatalf("snapshot: %+v %v", snapshot, err)
	}
	if _, err := rt.Snapshot(t.Context(), id, "one"); !errors.Is(err, runtime.ErrExists) {
		t.Errorf("a second one of its name: %v", err)
	}

	// Beside a program that has the file open.
	if n, err := rt.Discard(t.Context(), id, []string{"b"}); n != 1 || err != nil {
		t.Fatalf("discard: %d %v", n, err)
	}
	must("cat b", "b\n")
	result, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: []string{"a", "moved"}, DryRun: true})
	if err != nil || kinds(result.Applied) != "m a; r moved from dir; m moved/f; " || read(t, codebase, "a") != "a\n" {
		t.Fatalf("dry run: %+v %v", result, err)
	}
	result, err = rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: []string{"a", "moved"}})
	if err != nil || kinds(result.Applied) != "m a; r moved from dir; m moved/f; " {
		t.Fatalf("apply: %+v %v", result, err)
	}
	if read(t, codebase, "a") != "A\n" || read(t, codebase, "moved/f") != "F\n" || read(t, codebase, "moved/g") != "dir/g\n" || read(t, codebase, "dir/f") != "nothing" {
		t.Error("the host has something else")
	}
	changes("a new; a new/n; d old; ")
	must("cat a moved/f moved/g; ls", "A\nF\ndir/g\na\nb\nc\nmoved\nnew\n")
	write(t, codebase, "moved/g", "host\n")
	must("cat moved/g", "host\n")
	must("echo more >> a", "")
	changes("m a; a new; a new/n; d old; ")

	// A conflict, and the host's new file in what the sandbox has deleted.
	write(t, codebase, "a", "host\n")
	write(t, codebase, "old/y", "host\n")
	if result, err = rt.Apply(t.Context(), id, runtime.ApplyOptions{}); !errors.Is(err, runtime.ErrConflict) || kinds(result.Left) != "m a!; a new; a new/n; d old!; " {
		t.Errorf("apply over the host's changes: %+v %v", result, err)
	}
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	changes("m a!; a new; a new/n; d old!; ")
	if result, err = rt.Apply(t.Context(), id, runtime.ApplyOptions{Force: true}); !errors.Is(err, runtime.ErrConflict) || kinds(result.Applied) != "m a; a new; a new/n; " && kinds(result.Applied) != "m a!; a new; a new/n; " {
		t.Errorf("apply by force: %+v %v", result, err)
	}
	if read(t, codebase, "a") != "A\nmore\n" || read(t, codebase, "old/y") != "host\n" || read(t, codebase, "new/n") != "n\n" {
		t.Error("by force the host has something else")
	}
	if n, err := rt.Discard(t.Context(), id, nil); n != 1 || err != nil {
		t.Errorf("discard the rest: %d %v", n, err)
	}
	changes("")

	// What a snapshot had comes back.
	if err := rt.Restore(t.Context(), id, "two"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("restore what is not: %v", err)
	}
	if err := rt.Restore(t.Context(), id, "one"); err != nil {
		t.Fatal(err)
	}
	got, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{})
	if err != nil || !strings.Contains(kinds(got), "d b; ") {
		t.Errorf("restored: %s %v", kinds(got), err)
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := rt.Restore(t.Context(), id, "one"); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("restore while it runs: %v", err)
	}
	list, err := rt.Snapshots(t.Context(), id)
	if err != nil || len(list) != 1 || list[0].Name != "one" {
		t.Errorf("snapshots: %+v %v", list, err)
	}
	if err := rt.RemoveSnapshot(t.Context(), id, "one"); err != nil {
		t.Error(err)
	}
	if err := rt.RemoveSnapshot(t.Context(), id, "one"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("remove it again: %v", err)
	}
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
	p, err := rt.StartProcess(t.Context(), id, &runtime.ProcessSpec{Command: []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > first.new; mv first.new first; echo $i > second.new; mv second.new second; done"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fork, err := rt.Fork(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
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
