package bwrap_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/test/attack"
	"wolffia/internal/test/attack/attacktest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/runtimetest"
)

func TestMain(m *testing.M) { shimtest.Main(m.Run) }

// backend makes the runtimes of the tests.
var backend = shimtest.Of(bwrap.Backend())

// The numbers of the caller's descriptors are of no consequence, though what a
// helper process inherits is put where the helper expects it, over whatever was
// there. So low numbers come and go while sandboxes are started.
func TestStartWhateverIsOpen(t *testing.T) {
	need(t)
	rt := backend.Fresh(t)
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
	starts := 20 // with a processor that does nothing else
	if testenv.Full() {
		starts = 200
	}
	for range starts {
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

// created returns a sandbox that is destroyed after the test.
func created(t *testing.T, rt runtime.Runtime, c *runtime.SandboxConfig) (id string) {
	t.Helper()
	s, err := rt.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Destroy(context.Background(), s.ID); err != nil {
			t.Error(err)
		}
	})
	return s.ID
}

// started is created, and starts the sandbox.
func started(t *testing.T, rt runtime.Runtime, c *runtime.SandboxConfig) (id string) {
	t.Helper()
	id = created(t, rt, c)
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// need skips the test, or fails it, where sandboxes cannot work.
func need(t testing.TB) {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
}

func TestDescriptorsInFlight(t *testing.T) {
	need(t)
	shimtest.InFlight(t, backend.Fresh(t))
}

func TestTable(t *testing.T) {
	runtimetest.CheckTable(t, "../../docs/backends.md", bwrap.Name, nil)
}

func TestRuntime(t *testing.T) {
	testenv.Both(t)
	need(t)
	lacks := shimtest.LacksHere()
	if lacks != nil { // no control groups
		lacks = append(lacks, runtimetest.Pause)
	}
	runtimetest.Run(t, backend.Config(backend.Fresh, lacks...))
}

func BenchmarkRuntime(b *testing.B) {
	need(b)
	runtimetest.Bench(b, backend.Config(backend.Fresh))
}

// Programs may list the directories that bubblewrap creates for links and scratch
// directories.
func TestParentsOfTargets(t *testing.T) {
	need(t)
	rt := backend.Fresh(t)
	id := started(t, rt, &runtime.SandboxConfig{MountPoint: "/deep/er/workspace"})
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"stat", "-c", "%a %n", "/var", "/var/tmp/.", "/deep", "/deep/er"}})
	const want = "755 /var\n1777 /var/tmp/.\n755 /deep\n755 /deep/er\n"
	if err != nil || string(r.Stdout) != want {
		t.Errorf("%v, %s%s, want %s", err, r.Stdout, r.Stderr, want)
	}
}

// A codebase must not show the sandbox its own state, whichever contains the
// other, and by whatever name.
func TestCodebaseAndStateApart(t *testing.T) {
	rt := backend.Fresh(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(rt.State, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		rt.State, filepath.Dir(rt.State), filepath.Join(rt.State, "sandboxes"), link, filepath.Join(link, "sandboxes"), rt.State + "/../state",
	} {
		for what, c := range map[string]*runtime.SandboxConfig{
			"codebase": {CodebasePath: dir},
			"mount":    {Mounts: []runtime.Mount{{Source: dir, Target: "/data"}}},
			"rootfs":   {Rootfs: dir},
		} {
			s, err := rt.Create(t.Context(), c)
			if runtime.Class(err) != runtime.ErrInvalid {
				t.Errorf("%s %s: got s %+v, err %v; want runtime.Class(err) == runtime.ErrInvalid", what, dir, s, err)
			}
		}
	}
	// A neighbour whose name begins like it is no part of it.
	near := rt.State + "-code"
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

func TestRootDropsToOwner(t *testing.T) {
	testenv.Root(t)
	need(t)
	shimtest.RootDropsToOwner(t, backend)
}

func TestLimits(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Limits(t, backend, false)
}

func TestTwice(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Twice(t, backend, false)
}

func TestRemoved(t *testing.T) {
	need(t)
	shimtest.Removed(t, backend)
}

func TestAttackMatrix(t *testing.T) {
	testenv.Both(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{Backend: bwrap.Name, New: backend.Fresh})
}

// The attacks again, by root inside.
func TestAttackMatrixWithRoot(t *testing.T) {
	testenv.Both(t)
	testenv.SubIDs(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{Backend: bwrap.Name + attack.WithRoot, New: backend.Fresh, Sample: true})
}

// The attacks again, by root inside over the host's own system.
func TestAttackMatrixOverHost(t *testing.T) {
	testenv.Both(t)
	testenv.SubIDs(t)
	need(t)
	if err := rootfs.CheckSystem(); err != nil {
		t.Skip(err)
	}
	attacktest.Run(t, &attacktest.Config{Backend: bwrap.Name + attack.WithRoot + attack.OverHost, New: backend.Fresh, Sample: true})
}
