package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wolffia/perm"
	"wolffia/runtime"
)

// TestWarm: a tree is listed ahead when nothing runs inside, when something runs for long, or when somebody goes through it by
// name after name.
func TestWarm(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	const dirs, files = 20, 20
	for i := range dirs {
		if err := os.Mkdir(filepath.Join(codebase, fmt.Sprint("d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			write(t, codebase, fmt.Sprintf("d%d/f%d", i, j), "")
		}
	}
	names := func(id string) int {
		t.Helper()
		info, err := rt.Inspect(t.Context(), id)
		if err != nil || info.Tree == nil || info.Tree.TreeStats == nil {
			t.Fatalf("%+v, %v", info, err)
		}
		return info.Tree.Nodes
	}
	listed := func(id string) {
		t.Helper()
		for end := time.Now().Add(limit); names(id) < dirs*files; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the kernel knows %d names", names(id))
			}
		}
	}
	config := func(bound bool) *runtime.SandboxConfig {
		return &runtime.SandboxConfig{CodebasePath: codebase, BoundToCaller: bound, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}
	}
	begin := func(c *runtime.SandboxConfig, script string) (id string, p runtime.Process) {
		t.Helper()
		s, err := rt.Create(t.Context(), c)
		if err == nil {
			err = rt.Start(t.Context(), s.ID)
		}
		if err == nil {
			p, err = rt.StartProcess(t.Context(), s.ID, &runtime.ProcessSpec{Command: []string{"sh", "-c", script}})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return s.ID, p
	}

	// A sandbox counts as used for a quarter of a second from its start on, within which the process has to come.
	unlisted := func(bound bool) (id string) {
		t.Helper()
		for range 20 {
			begun := time.Now()
			id, _ = begin(config(bound), "exec sleep 1000")
			if time.Since(begun) > 200*time.Millisecond {
				continue
			}
			time.Sleep(100 * time.Millisecond) // twenty times as long as it takes a listing to begin
			if n := names(id); n > dirs {
				t.Errorf("bound %v: while a command runs %d names are listed", bound, n)
			}
			break
		}
		return id
	}

	long := unlisted(false)
	id, p := begin(config(true), "exec sleep 1000")
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = p.Close()
	listed(id)

	const looks = "cd d1; i=0; while [ $i -lt 300 ]; do [ -e none$i ]; i=$((i+1)); done; exec sleep 1000"
	for _, bound := range []bool{false, true} {
		id, _ := begin(config(bound), looks)
		listed(id)
	}
	listed(long)
	unlisted(true)
}
