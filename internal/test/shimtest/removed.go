package shimtest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// Removed checks that a sandbox ends by itself when its directory is removed or
// renamed, or the state directory is, and that another one goes on.
func Removed(t *testing.T, backend Backend) {
	rt := backend.Fresh(t)
	for name, do := range map[string]func(dir string) error{
		"rm": os.RemoveAll,
		"mv": func(dir string) error { return os.Rename(dir, filepath.Join(t.TempDir(), "away")) },
	} {
		t.Log(name)
		other, id := on(t, rt, &runtime.SandboxConfig{}).ID, on(t, rt, &runtime.SandboxConfig{}).ID
		left(t, rt, id, func() error { return do(filepath.Join(rt.State, "sandboxes", id)) })
		says(t, rt, other, "echo alive", "alive\n")
	}
	moved := backend.Open(t, filepath.Join(PublicDir(t), "state"))
	id := on(t, moved, &runtime.SandboxConfig{}).ID
	left(t, moved, id, func() error { return os.Rename(moved.State, moved.State+".away") })
	t.Log("without inotify, as among many sandboxes")
	for i := range 40 {
		dir := filepath.Join(rt.State, "sandboxes", "many"+strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	id = on(t, rt, &runtime.SandboxConfig{}).ID
	left(t, rt, id, func() error { return os.RemoveAll(filepath.Join(rt.State, "sandboxes", id)) })
}

// left checks that a sandbox ends when do has run.
func left(t *testing.T, rt *Runtime, id string, do func() error) {
	t.Helper()
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool, 1)
	go func() { // ends with the sandbox
		res, err := p.Wait(context.WithoutCancel(t.Context()))
		ended <- err == nil && res.ExitCode == 0
	}()
	if wait.Receive(t, "end of a command in a sandbox whose directory is gone", ended) {
		t.Error("sleep ended by itself, want it killed")
	}
}
