package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// A sandbox of which a file cannot be read hides no other, is listed with the reason, and keeps its changes until it is
// destroyed.
func TestDamaged(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	healthy := create(t, rt, codebase)
	unreadable := func(path string) error { return errors.Join(os.Remove(path), unix.Mknod(path, unix.S_IFSOCK|0o600, 0)) } // by root, too
	for what, tt := range map[string]struct {
		file  string
		spoil func(path string) error
	}{
		"configuration cut":        {"config.json", func(path string) error { return os.Truncate(path, 100) }},
		"configuration unreadable": {"config.json", unreadable},
		"lock unreadable":          {"lock", unreadable},
		"lifetime unreadable":      {"lifetime.json", unreadable},
	} {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
			CodebasePath: codebase, CopyOnWrite: true, Permissions: everything(perm.Write), TTL: runtime.MaxLifetime,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		sh(t, rt, s.ID, "echo kept >work")
		if err := rt.Stop(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(state, "sandboxes", s.ID)
		if err := tt.spoil(filepath.Join(dir, tt.file)); err != nil {
			t.Fatal(err)
		}
		for _, stopped := range []bool{false, true} {
			if pruned, err := rt.Prune(t.Context(), stopped); err != nil || len(pruned) > 0 {
				t.Errorf("%s: pruned %+v, %v", what, pruned, err)
			}
		}
		all, err := rt.List(t.Context())
		if err != nil || len(all) != 2 {
			t.Errorf("%s: %+v, %v; want two sandboxes", what, all, err)
		}
		for _, is := range all {
			if (is.ID == healthy) != (is.Reason == "") {
				t.Errorf("%s: %s is %s: %q", what, is.ID, is.State, is.Reason)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "cow", "upper", "work")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is still there (%v)", what, err)
		}
	}
}
