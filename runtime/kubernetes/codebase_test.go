package kubernetes_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// project makes a codebase of files that the rules hide, show by name, and let be read only, and
// returns the configuration of a sandbox with it.
func project(t testing.TB, files map[string]string) (dir string, c *runtime.SandboxConfig) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		put(t, filepath.Join(dir, name), content)
	}
	return dir, &runtime.SandboxConfig{CodebasePath: dir, CopyOnWrite: true, Permissions: []perm.Rule{
		{Pattern: "**", Level: perm.Write},
		{Pattern: ".env", Level: perm.None, Priority: 1},
		{Pattern: "name-only", Level: perm.View, Priority: 1},
		{Pattern: "fixed/**", Level: perm.Read, Priority: 1},
	}}
}

func put(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// content returns what a file of the host has; empty: there is none.
func content(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name))
	return string(b)
}

// changes returns the changes of a sandbox, a line each.
func changes(t testing.TB, rt *shimtest.Runtime, id string) (all []string) {
	t.Helper()
	list, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Kind, c.Path, c.Conflict)))
	}
	slices.Sort(all)
	return all
}

func wantChanges(t testing.TB, rt *shimtest.Runtime, id string, want ...string) {
	t.Helper()
	if got := changes(t, rt, id); !slices.Equal(got, want) {
		t.Errorf("changes: got %q, want %q", got, want)
	}
}

// What the rules let be seen of the codebase is in the pod, and nothing else. What the pod changes is
// reviewed, applied and discarded as with every backend, and survives the pod.
func TestCodebase(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	dir, c := project(t, map[string]string{
		"a.txt": "one\n", "sub/b.txt": "two\n", "sub/gone.txt": "old\n", ".env": "SECRET-VALUE", "name-only": "SECRET-NAME",
		"fixed/f": "fixed\n", "kept/x": "x\n",
	})
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	id := start(t, rt, c)
	if got := sh(t, rt, id, "cd /workspace && cat a.txt sub/b.txt link fixed/f && find . | sort | tr '\\n' ' '"); got !=
		"one\ntwo\none\nfixed\n. ./a.txt ./fixed ./fixed/f ./kept ./kept/x ./link ./name-only ./sub ./sub/b.txt ./sub/gone.txt " {
		t.Errorf("the pod has %q", got)
	}
	if got := sh(t, rt, id, "cd /workspace; cat name-only 2>&1; echo x >>fixed/f; chmod 600 name-only; cat name-only | tr -d '\\0'; grep -r SECRET /workspace /tmp /run /root /home 2>/dev/null; true"); strings.Contains(got, "SECRET") {
		t.Errorf("what is hidden is in the pod: %q", got)
	}
	wantChanges(t, rt, id)
	sh(t, rt, id, "cd /workspace && echo more >>a.txt && rm sub/gone.txt && mkdir -p new/deep && echo n >new/deep/f && ln -s f new/deep/l && rm -r kept && echo s >.env && chmod +x sub/b.txt")
	all := []string{"added new", "added new/deep", "added new/deep/f", "added new/deep/l", "deleted kept", "deleted sub/gone.txt", "mode sub/b.txt", "modified a.txt"}
	wantChanges(t, rt, id, all...)
	var diff bytes.Buffer
	if err := rt.Diff(t.Context(), id, runtime.DiffOptions{Paths: []string{"a.txt"}}, &diff); err != nil || !strings.Contains(diff.String(), "+more") {
		t.Errorf("%s, %v", &diff, err)
	}
	if got := content(dir, "a.txt"); got != "one\n" {
		t.Errorf("the host has %q before it was applied", got)
	}

	if _, err := rt.Discard(t.Context(), id, []string{"sub"}); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, rt, id, "cd /workspace/sub && cat gone.txt && ls -l b.txt | cut -c4"); got != "old\n-\n" {
		t.Errorf("discarded: %q", got)
	}
	put(t, filepath.Join(dir, "a.txt"), "the host's\n")
	if _, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: []string{"new"}}); err != nil {
		t.Error(err)
	}
	if got := content(dir, "new/deep/f"); got != "n\n" {
		t.Errorf("applied: %q", got)
	}
	if _, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{}); err == nil || content(dir, "a.txt") != "the host's\n" {
		t.Errorf("a conflict was applied: %v, %q", err, content(dir, "a.txt"))
	}
	if got := content(dir, ".env"); got != "SECRET-VALUE" {
		t.Errorf("what is hidden was changed: %q", got)
	}

	sh(t, rt, id, "echo late >/workspace/late")
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, rt, id, "added late", "deleted kept", "modified a.txt changed on the host")
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, rt, id, "cd /workspace && cat late a.txt && ls"); got != "late\none\nmore\na.txt\nfixed\nlate\nlink\nname-only\nnew\nsub\n" {
		t.Errorf("after another start the pod has %q", got)
	}
	destroy(t, rt, id)
}

// What the host has changed after it was sent, and the pod too, is a conflict, though the pod's
// change was taken later.
func TestCodebaseConflict(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	dir, c := project(t, map[string]string{"f": "one\n", "d": "one\n"})
	id := start(t, rt, c)
	time.Sleep(10 * time.Millisecond) // of the clock of file times
	put(t, filepath.Join(dir, "f"), "two\n")
	put(t, filepath.Join(dir, "d"), "two\n")
	put(t, filepath.Join(dir, "n"), "two\n")
	sh(t, rt, id, "cd /workspace && echo three >f && rm d && echo three >n")
	wantChanges(t, rt, id, "deleted d changed on the host", "modified f changed on the host", "modified n made on the host")
	if _, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{}); err == nil || content(dir, "f") != "two\n" {
		t.Errorf("applied: %v", err)
	}
	put(t, filepath.Join(dir, "later"), "of the host\n")
	put(t, filepath.Join(dir, "f"), "two again\n")
	wantChanges(t, rt, id, "deleted d changed on the host", "modified f changed on the host", "modified n made on the host")
	if got := sh(t, rt, id, "cd /workspace && cat later f n"); got != "of the host\nthree\nthree\n" {
		t.Errorf("after the host's edits the pod has %q", got)
	}
	destroy(t, rt, id)
}

// Thousands of files are sent and taken in seconds.
func TestCodebaseOfManyFiles(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	files := map[string]string{}
	const n = 10000
	for i := range n {
		files[fmt.Sprintf("d%d/e%d/f%d", i%10, i/10%20, i)] = strings.Repeat("x", i%6000)
	}
	_, c := project(t, files)
	begin := time.Now()
	id := start(t, rt, c)
	t.Logf("start with %d files: %v", n, time.Since(begin))
	if got := sh(t, rt, id, "cd /workspace && find . -type f | wc -l"); got != fmt.Sprintln(n) {
		t.Errorf("%s files", got)
	}
	begin = time.Now()
	wantChanges(t, rt, id)
	t.Logf("a look without a change: %v", time.Since(begin))
	sh(t, rt, id, "cd /workspace && cp -r . /tmp/all && mv /tmp/all copy && for f in $(find d* -type f); do echo y >>$f; done")
	begin = time.Now()
	if got := len(changes(t, rt, id)); got < 2*n {
		t.Errorf("%d changes", got)
	}
	t.Logf("take %d files: %v", 2*n, time.Since(begin))
	destroy(t, rt, id)
}
