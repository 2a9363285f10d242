package bwrap_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/probe"
	"wolffia/internal/testbin"
	"wolffia/internal/testenv"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/runtimetest"
	"wolffia/shim"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077) // nothing must depend on a friendlier one
	code := m.Run()
	testbin.Remove()
	os.Exit(code)
}

// A testRuntime knows where its state is.
type testRuntime struct {
	*bwrap.Runtime
	state string
}

// open returns a runtime over a state directory.
func open(t testing.TB, state string) *testRuntime {
	t.Helper()
	rt, err := bwrap.New(&shim.Options{StateDir: state, Binary: filepath.Join(testbin.Dir(t), "wolffia")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return &testRuntime{rt, state}
}

// publicDir makes a directory that the user to whom root drops can reach.
func publicDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fresh returns a runtime over an empty state directory, which must be empty
// in the end.
func fresh(t testing.TB) *testRuntime {
	t.Helper()
	state := filepath.Join(publicDir(t), "state")
	t.Cleanup(func() {
		left, err := os.ReadDir(filepath.Join(state, "sandboxes"))
		if len(left) > 0 || err != nil {
			t.Errorf("left in the state directory: %v (%v)", left, err)
		}
	})
	return open(t, state)
}

// crash kills the shim, and waits until everybody knows.
func crash(t testing.TB, rt runtime.RuntimeWithExecutor, id string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(rt.(*testRuntime).state, "sandboxes", id, "shim.json"))
	if err != nil {
		t.Fatal(err)
	}
	var shim struct{ PID int }
	if err := json.Unmarshal(data, &shim); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(shim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		s, err := rt.Get(t.Context(), id)
		if err == nil && s.State == runtime.StateDead {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("its shim was killed, and it is %+v, %v", s, err)
		}
	}
}

func config() runtimetest.Config {
	return runtimetest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor { return fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithExecutor) runtime.RuntimeWithExecutor {
			return open(t, rt.(*testRuntime).state)
		},
		Crash: crash,
	}
}

// The numbers of the caller's descriptors are of no consequence, though what a
// helper process inherits is put where the helper expects it, over whatever was
// there. So low numbers come and go while sandboxes are started.
func TestStartWhateverIsOpen(t *testing.T) {
	need(t)
	rt := fresh(t)
	over := make(chan struct{})
	var churning sync.WaitGroup
	churning.Go(func() {
		for n := 0; ; n++ {
			var files [8]*os.File
			for i := range files[:n%len(files)] {
				files[i], _ = os.Open(os.DevNull)
			}
			for _, f := range files {
				_ = f.Close()
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	defer churning.Wait()
	defer close(over)
	for range 200 {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		err = rt.Start(t.Context(), s.ID)
		if derr := rt.Destroy(t.Context(), s.ID); err != nil || derr != nil {
			t.Fatal(err, derr)
		}
	}
}

// need skips the test, or fails it, where sandboxes cannot work.
func need(t testing.TB) {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
}

func TestRuntime(t *testing.T) {
	need(t)
	runtimetest.Run(t, config())
}

func BenchmarkRuntime(b *testing.B) {
	need(b)
	runtimetest.Bench(b, config())
}

// A codebase must not show the sandbox its own state, whichever contains the
// other, and by whatever name.
func TestCodebaseAndStateApart(t *testing.T) {
	rt := fresh(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(rt.state, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		rt.state, filepath.Dir(rt.state), filepath.Join(rt.state, "sandboxes"), link, filepath.Join(link, "sandboxes"), rt.state + "/../state",
	} {
		for what, c := range map[string]*runtime.SandboxConfig{
			"codebase": {CodebasePath: dir},
			"mount":    {Mounts: []runtime.Mount{{Source: dir, Target: "/data"}}},
			"rootfs":   {Rootfs: dir},
		} {
			s, err := rt.Create(t.Context(), c)
			if runtime.Class(err) != runtime.ErrInvalid {
				t.Errorf("%s %s: %+v, %v", what, dir, s, err)
			}
		}
	}
	// A neighbour whose name begins like it is no part of it.
	near := rt.state + "-code"
	if err := os.Mkdir(near, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: near})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Destroy(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
}

// Root's sandbox runs as the owner of the codebase.
func TestRootDropsToOwner(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	dir := filepath.Join(publicDir(t), "code")
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
		t.Errorf("%+v, %v", r, err)
	}
	st, err := os.Stat(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	if sys := st.Sys().(*syscall.Stat_t); sys.Uid != uid || sys.Gid != gid {
		t.Errorf("its file belongs to %d:%d", sys.Uid, sys.Gid)
	}
}
