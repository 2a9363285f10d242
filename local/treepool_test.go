package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// takenOf returns how many pooled sandboxes of a pool were claimed.
func takenOf(t *testing.T, rt *local.Runtime, shape string) int64 {
	t.Helper()
	return awaitPool(t, rt, shape, "there", func(p *local.Pool) bool { return p != nil }).Claimed
}

// A pooled sandbox with its tree is for a sandbox of this codebase and these rules. That shows what
// the host has done meanwhile, and no message is sent for what the kernel knows already.
func TestTreePool(t *testing.T) {
	const dirs, files = 20, 20
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "secret", "hidden\n")
	write(t, codebase, "old", "old\n")
	plant(t, codebase, dirs, files)
	config := configOf(codebase)
	config.Permissions = append(config.Permissions, perm.Rule{Pattern: "secret", Level: perm.None})
	p := poolOf(t, rt, config, local.PoolOptions{Size: 4, Tree: true})
	if !p.Tree || p.Config.CodebasePath != codebase || p.Ready != 4 {
		t.Errorf("poolOf: got p %+v; want p.Tree and p.Config.CodebasePath == %v and p.Ready == 4", p, codebase)
	}
	write(t, codebase, "old", "changed\n")
	write(t, codebase, "new", "new\n")

	id := launched(t, rt, config).ID
	if n := takenOf(t, rt, p.Shape); n != 1 {
		t.Errorf("%d taken, want 1", n)
	}
	if out, code := sh(t, rt, id, "cat old new; cat secret 2>/dev/null; echo inside >made"); out != "changed\nnew\n" || code != 0 {
		t.Errorf(`sh "cat old new; cat secret 2>/dev/null; echo inside >made": got %q, %d; want %q, 0`, out, code, "changed\nnew\n")
	}
	if got, err := os.ReadFile(filepath.Join(codebase, "made")); err != nil || string(got) != "inside\n" {
		t.Errorf("what was written inside: %q, %v", got, err)
	}
	look := fmt.Sprintf("for i in $(seq 0 %d); do for j in $(seq 0 %d); do test -s d$i/f$j; done; done; :", dirs-1, files-1)
	if out, code := sh(t, rt, id, look); out != "" || code != 0 {
		t.Errorf(`sh: got %q, %d; want "", 0`, out, code)
	}
	d, err := rt.Inspect(t.Context(), id)
	if err != nil || d.Tree == nil || !d.Tree.Current {
		t.Fatalf("Inspect: got d %+v, err %v; want err == nil and d.Tree != nil and d.Tree.Current", d, err)
	}
	// Those of directories that have directories in them ask for a .gitignore, and the first command for what it uses.
	if n := d.Tree.Messages["lookup"]; n > dirs*files/10 {
		t.Errorf("%d lookups of %d names", n, dirs*files)
	}

	other, others := t.TempDir(), *config
	write(t, other, "a", "content\n")
	others.CodebasePath = other
	fewer := *config
	fewer.Permissions = append(everything(perm.Read), perm.Rule{Pattern: "old", Level: perm.None})
	for what, c := range map[string]*runtime.SandboxConfig{"another codebase": &others, "other rules": &fewer} {
		id := launched(t, rt, c).ID
		if out, _ := sh(t, rt, id, "cat old 2>/dev/null"); out != "" {
			t.Errorf(`%s: got %q, want ""`, what, out)
		}
		if n := takenOf(t, rt, p.Shape); n != 1 {
			t.Errorf("%s: %d taken, want 1", what, n)
		}
	}

	// What has taken the codebase's place is another one.
	if err := errors.Join(os.Rename(codebase, codebase+".away"), os.Mkdir(codebase, 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, codebase, "old", "of another directory\n")
	id = launched(t, rt, config).ID
	if out, _ := sh(t, rt, id, "ls; cat old"); out != "old\nof another directory\n" {
		t.Errorf("in the place of the codebase: %q", out)
	}
	if n := takenOf(t, rt, p.Shape); n != 2 {
		t.Errorf("%d taken, want 2: one of them in vain", n)
	}
}

// A pool of pooled sandboxes with their tree has a codebase.
func TestTreePoolNeedsCodebase(t *testing.T) {
	rt, _, _ := newRuntime(t)
	testenv.Unprivileged(t)
	if _, err := rt.StartPool(t.Context(), &runtime.SandboxConfig{}, local.PoolOptions{Size: 1, Tree: true}); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
}
