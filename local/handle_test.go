package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/perm"
	"wolffia/runtime"
)

// TestHandles uses a sandbox and a session by their handles, by bubblewrap.
func TestHandles(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	ctx := t.Context()
	sb, err := runtime.Launch(ctx, rt, &runtime.SandboxConfig{
		CodebasePath: codebase,
		Permissions:  []perm.Rule{{Pattern: "**", Level: perm.Write}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := sb.Exec(ctx, "sh", "-c", "echo made > file; exit 4"); err != nil || res.ExitCode != 4 {
		t.Errorf(`Exec "sh" "-c" "echo made > file; exit 4": got res %+v, err %v; want err == nil and res.ExitCode == 4`, res, err)
	}
	if b, err := os.ReadFile(filepath.Join(codebase, "file")); err != nil || string(b) != "made\n" {
		t.Errorf("os.ReadFile: got %q, %v; want %q, nil", b, err, "made\n")
	}
	if res, err := sb.Do(ctx, &runtime.ExecRequest{Command: []string{"cat"}, Stdin: strings.NewReader("in")}); err != nil || string(res.Stdout) != "in" {
		t.Errorf(`Do: got res %+v, err %v; want err == nil and res.Stdout == "in"`, res, err)
	}

	dev, err := sb.Session(ctx, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Exec(ctx, "cd /tmp; x=kept"); err != nil {
		t.Fatal(err)
	}
	again, err := sb.Session(ctx, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if res, err := again.Do(ctx, &runtime.SessionExecRequest{Command: []string{"echo $PWD $x $more"}, Env: map[string]string{"more": "now"}}); err != nil || string(res.Stdout) != "/tmp kept now\n" {
		t.Errorf("Do: got res %+v, err %v; want err == nil and res.Stdout == %q", res, err, "/tmp kept now\n")
	}
	if s, err := dev.Session(ctx); err != nil || s.ID != dev.ID() || s.ID != runtime.SessionIn(sb.ID(), "dev") {
		t.Errorf(`Session: got s %+v, err %v; want err == nil and s.ID == dev.ID() and s.ID == runtime.SessionIn(box.ID(), "dev")`,
			s, err)
	}
	if err := dev.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := again.Exec(ctx, "true"); runtime.Class(err) != runtime.ErrNotFound {
		t.Errorf("in a session that is gone: %v", err)
	}
	if _, err := sb.Session(ctx, "no/name"); err == nil {
		t.Error("a session has a name that none can have")
	}

	if err := sb.Stop(ctx); err != nil {
		t.Error(err)
	}
	opened, err := runtime.Open(ctx, rt, sb.ID()[:6])
	if err != nil {
		t.Fatal(err)
	}
	if s, err := opened.Sandbox(ctx); err != nil || s.State != runtime.StateStopped {
		t.Errorf("Sandbox: got s %+v, err %v; want err == nil and s.State == runtime.StateStopped", s, err)
	}
	if err := opened.Start(ctx); err != nil {
		t.Error(err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := opened.Sandbox(ctx); runtime.Class(err) != runtime.ErrNotFound {
		t.Errorf("after its end: %v", err)
	}
}
