package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// plant makes directories d0, d1, ... of empty files f0, f1, ... in a codebase.
func plant(t *testing.T, codebase string, dirs, files int) {
	t.Helper()
	for i := range dirs {
		if err := os.Mkdir(filepath.Join(codebase, fmt.Sprint("d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			write(t, codebase, fmt.Sprintf("d%d/f%d", i, j), "")
		}
	}
}

// TestWarm: a tree is listed ahead when nothing runs inside, when something runs for long, or when a
// program goes through it by name after name; and once more after new rules.
func TestWarm(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	const dirs, files = 20, 20
	plant(t, codebase, dirs, files)
	e := suite.New(t)
	tree := func(id string) *local.TreeState {
		t.Helper()
		info, err := rt.Inspect(e.Ctx, id)
		if err != nil || info.Tree == nil || info.Tree.TreeStats == nil {
			t.Fatalf("Inspect: got info %+v, err %v; want err == nil and info.Tree != nil and info.Tree.TreeStats != nil", info, err)
		}
		return info.Tree
	}
	names := func(id string) int { return tree(id).Nodes }
	listed := func(id string) {
		t.Helper()
		e.Until("a listing ahead", func() bool { return names(id) >= dirs*files })
	}
	begin := func(bound bool, script string) (id string, p runtime.Process) {
		t.Helper()
		s, err := rt.Create(e.Ctx, &runtime.SandboxConfig{CodebasePath: codebase, BoundToCaller: bound, Permissions: everything(perm.Write)})
		e.OK(err)
		e.OK(rt.Start(e.Ctx, s.ID))
		p, err = rt.StartProcess(e.Ctx, s.ID, &runtime.Command{Command: []string{"sh", "-c", script}})
		e.OK(err)
		t.Cleanup(func() { _ = p.Close() })
		return s.ID, p
	}
	idle := func() (id string) {
		t.Helper()
		id, p := begin(true, "exec sleep 1000")
		e.OK(p.Signal(syscall.SIGKILL))
		_, err := p.Wait(e.Ctx)
		e.OK(err)
		listed(id)
		return id
	}

	// A sandbox counts as used for a quarter of a second from its start on, within which its process has to come. One that
	// starts after it is listed meanwhile; after two seconds, each is.
	unlisted := func(bound bool) (id string) {
		t.Helper()
		for range 20 {
			begun := time.Now()
			id, _ = begin(bound, "exec sleep 1000")
			if time.Since(begun) > 200*time.Millisecond {
				continue
			}
			idle()
			n := names(id)
			if !bound && time.Since(begun) > 1800*time.Millisecond {
				continue
			}
			if n > dirs {
				t.Errorf("bound %v: while a command runs %d names are listed", bound, n)
			}
			break
		}
		return id
	}
	long := unlisted(false)

	const looks = "cd d1; i=0; while [ $i -lt 300 ]; do [ -e none$i ]; i=$((i+1)); done; exec sleep 1000"
	for _, bound := range []bool{false, true} {
		id, _ := begin(bound, looks)
		listed(id)
	}
	listed(long)
	unlisted(true)

	id := idle()
	before := tree(id).Messages["readdirplus"]
	e.OK(rt.SetPermissions(e.Ctx, id, everything(perm.Read)))
	e.Until("a listing after new rules", func() bool { return tree(id).Messages["readdirplus"] >= before+dirs })
}
