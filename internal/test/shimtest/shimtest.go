// Package shimtest is what the tests of all backends share. It makes runtimes over state
// directories of their own, and kills shims.
package shimtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/runtime/runtimetest"
)

// A Runtime knows where its state is.
type Runtime struct {
	*local.Runtime
	State string
}

// A Backend makes a runtime.
type Backend func(*local.Options) (*local.Runtime, error)

// Of returns the Backend that makes runtimes with backends.
func Of(first launch.Backend, more ...launch.Backend) Backend {
	return func(opts *local.Options) (*local.Runtime, error) { return local.New(opts, first, more...) }
}

// Open returns a runtime over a state directory.
func (b Backend) Open(t testing.TB, state string) *Runtime {
	t.Helper()
	rt, err := b(&local.Options{StateDir: state, Binary: filepath.Join(testbin.Dir(t), "wolffia")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return &Runtime{rt, state}
}

// Reopen returns a second runtime over the state of rt.
func (b Backend) Reopen(t testing.TB, rt any) *Runtime {
	t.Helper()
	return b.Open(t, rt.(*Runtime).State)
}

// Fresh returns a runtime over an empty state directory, which must be empty
// in the end.
func (b Backend) Fresh(t testing.TB) *Runtime {
	t.Helper()
	state := filepath.Join(PublicDir(t), "state")
	t.Cleanup(func() {
		states.add(t, state) // Main looks for what is left of its sandboxes' limits
		// The shim of a sandbox that is bound to its caller removes that by itself.
		var left []os.DirEntry
		var err error
		wait.Poll(func() bool {
			left, err = os.ReadDir(filepath.Join(state, "sandboxes"))
			return len(left) == 0
		})
		if len(left) > 0 || err != nil {
			t.Errorf("left in the state directory: %v (%v)", left, err)
		}
	})
	return b.Open(t, state)
}

// LacksHere are the features that depend on the host and are not there.
func LacksHere() []runtimetest.Feature {
	if r := probe.Check(context.Background(), probe.Cgroups); !r.OK {
		return []runtimetest.Feature{runtimetest.Limits}
	}
	return nil
}

// PublicDir makes a directory that the user to whom root drops can reach.
func PublicDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// DestroyAll destroys all sandboxes, in the end of a test.
func DestroyAll(t testing.TB, rt runtime.Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), suite.Limit)
	defer cancel()
	all, err := rt.List(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if err := rt.Destroy(ctx, s.ID); err != nil {
			t.Error(err)
		}
	}
}

// Kill kills the shim of a sandbox, and the keeper if there is one, which would
// replace it.
func Kill(t testing.TB, state, id string) {
	t.Helper()
	dir, err := statedir.Open(state)
	if err == nil {
		rec := dir.Record(id)
		err = errors.Join(rec.Processes().KillKeeper(wait.Limit), rec.Processes().Shim().Kill(wait.Limit))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Crash is Kill, and waits until everybody knows.
func Crash(t testing.TB, rt runtime.RuntimeWithExecutor, id string) {
	t.Helper()
	Kill(t, rt.(*Runtime).State, id)
	wait.Equal(t, "state of "+id+", whose shim was killed", runtime.StateDead, func() runtime.State {
		s, err := rt.Get(t.Context(), id)
		if err != nil {
			t.Logf("get %s: %v", id, err)
			return ""
		}
		return s.State
	})
}

// RootDropsToOwner tests that root's sandbox runs as the owner of the codebase.
func RootDropsToOwner(t *testing.T, backend Backend) {
	t.Helper()
	testenv.Root(t)
	rt := backend.Fresh(t)
	dir := filepath.Join(PublicDir(t), "code")
	const uid, gid = 2345, 3456
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: dir, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}()
	if s.UID != uid || s.GID != gid {
		t.Errorf("it runs as %d:%d", s.UID, s.GID)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "echo x >file; id -u; id -g"}})
	if err != nil || string(r.Stdout) != fmt.Sprintf("%d\n%d\n", uid, gid) {
		t.Errorf("Exec: got r %+v, err %v; want err == nil and r.Stdout == fmt.Sprintf(%q, uid, gid)", r, err, "%d\n%d\n")
	}
	st, err := os.Stat(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	if sys := st.Sys().(*syscall.Stat_t); sys.Uid != uid || sys.Gid != gid {
		t.Errorf("its file belongs to %d:%d", sys.Uid, sys.Gid)
	}
}
