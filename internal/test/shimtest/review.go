package shimtest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/perm"
	"wolffia/runtime"
)

// Review checks that changes are the same while the sandbox runs and when it is stopped; what is applied, discarded and left is right in
// both, and the running sandbox sees it at once.
func Review(t *testing.T, rt *Runtime) {
	codebase := filepath.Join(PublicDir(t), "codebase")
	if err := os.Mkdir(codebase, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"dir", "old"} {
		if err := os.Mkdir(filepath.Join(codebase, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c", "dir/f", "dir/g", "old/x"} {
		write(codebase, name, name+"\n")
	}
	give(t, codebase)
	id := on(t, rt, &runtime.SandboxConfig{
		CodebasePath: codebase, MountPoint: "/workspace", CopyOnWrite: true, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}},
	}).ID
	must := func(script, want string) {
		t.Helper()
		says(t, rt, id, "cd /workspace && { "+script+"; }", want)
	}
	must("echo A > a; rm b; mv dir moved; echo F > moved/f; mkdir new; echo n > new/n; rm -r old; mkdir -p .git; echo x > .git/config.lock 2>/dev/null; rm -rf .git", "")
	changes := func(want string, paths ...string) {
		t.Helper()
		got, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{Paths: paths})
		if err != nil || Kinds(got) != want {
			t.Fatalf("changes %s, want %s: %v", Kinds(got), want, err)
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
	if Content(t, codebase, "a") != "a\n" || Content(t, codebase, "b") != "b\n" || Content(t, codebase, "new/n") != "nothing" {
		t.Error("the host has changed before apply")
	}
	snapshot, err := rt.Snapshot(t.Context(), id, "one", runtime.SnapshotOptions{})
	if err != nil || snapshot.Name != "one" {
		t.Fatalf("snapshot: %+v %v", snapshot, err)
	}
	if _, err := rt.Snapshot(t.Context(), id, "one", runtime.SnapshotOptions{}); !errors.Is(err, runtime.ErrExists) {
		t.Errorf("a second one of its name: %v", err)
	}

	// Beside a program that has the file open.
	if n, err := rt.Discard(t.Context(), id, []string{"b"}); n != 1 || err != nil {
		t.Fatalf("discard: %d %v", n, err)
	}
	must("cat b", "b\n")
	result, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: []string{"a", "moved"}, DryRun: true})
	if err != nil || Kinds(result.Applied) != "m a; r moved from dir; m moved/f; " || Content(t, codebase, "a") != "a\n" {
		t.Fatalf("dry run: %+v %v", result, err)
	}
	result, err = rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: []string{"a", "moved"}})
	if err != nil || Kinds(result.Applied) != "m a; r moved from dir; m moved/f; " {
		t.Fatalf("apply: %+v %v", result, err)
	}
	if Content(t, codebase, "a") != "A\n" || Content(t, codebase, "moved/f") != "F\n" || Content(t, codebase, "moved/g") != "dir/g\n" || Content(t, codebase, "dir/f") != "nothing" {
		t.Error("the host has something else")
	}
	changes("a new; a new/n; d old; ")
	must("cat a moved/f moved/g; ls", "A\nF\ndir/g\na\nb\nc\nmoved\nnew\n")
	write(codebase, "moved/g", "host\n")
	must("cat moved/g", "host\n")
	must("echo more >> a", "")
	changes("m a; a new; a new/n; d old; ")

	// A conflict, and the host's new file in what the sandbox has deleted.
	write(codebase, "a", "host\n")
	write(codebase, "old/y", "host\n")
	if result, err = rt.Apply(t.Context(), id, runtime.ApplyOptions{}); !errors.Is(err, runtime.ErrConflict) || Kinds(result.Left) != "m a!; a new; a new/n; d old!; " {
		t.Errorf("apply over the host's changes: %+v %v", result, err)
	}
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	changes("m a!; a new; a new/n; d old!; ")
	if result, err = rt.Apply(t.Context(), id, runtime.ApplyOptions{Force: true}); !errors.Is(err, runtime.ErrConflict) || Kinds(result.Applied) != "m a; a new; a new/n; " && Kinds(result.Applied) != "m a!; a new; a new/n; " {
		t.Errorf("apply by force: %+v %v", result, err)
	}
	if Content(t, codebase, "a") != "A\nmore\n" || Content(t, codebase, "old/y") != "host\n" || Content(t, codebase, "new/n") != "n\n" {
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
	if err != nil || !strings.Contains(Kinds(got), "d b; ") {
		t.Errorf("restored: %s %v", Kinds(got), err)
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

// Kinds prints changes: the first letter of its kind and the path of each, with marks for conflicts (!), what the rules
// refuse (x) and what is never applied (-).
func Kinds(changes []runtime.Change) string {
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

// Content returns the content of a file, "nothing" if there is none.
func Content(t *testing.T, path ...string) string {
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
