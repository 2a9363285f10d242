package gvisor_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// storm is how long host and sandbox change the same name.
const storm = 5 * time.Second

// What the host does to a name while programs open it inside ends neither gVisor's kernel nor their work.
func TestHostChangesOpenedName(t *testing.T) {
	testenv.Unprivileged(t)
	need(t)
	for name, tt := range map[string]struct {
		flags string // with which programs open x, which must not fail
		host  func(x string) error
	}{
		"Type": {"os.O_RDONLY", func(x string) error {
			return unix.Renameat2(unix.AT_FDCWD, x, unix.AT_FDCWD, x+".d", unix.RENAME_EXCHANGE)
		}},
		"Replaced": {"os.O_RDONLY", func(x string) error {
			return errors.Join(os.WriteFile(x+".new", nil, 0o644), os.Rename(x+".new", x))
		}},
		"Removed": {"os.O_WRONLY | os.O_CREAT | os.O_TRUNC", func(x string) error {
			if err := unix.Unlink(x); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rt := backend.Fresh(t)
			defer shimtest.DestroyAll(t, rt)
			code := shimtest.PublicDir(t)
			x := filepath.Join(code, "x")
			if err := errors.Join(os.WriteFile(x, nil, 0o644), os.Mkdir(x+".d", 0o755)); err != nil {
				t.Fatal(err)
			}
			s, err := runtime.Launch(t.Context(), rt, &runtime.SandboxConfig{
				CodebasePath: code, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}},
			})
			if err != nil {
				t.Fatal(err)
			}
			stormed := make(chan error, 1)
			go func() { // ends in time
				var err error
				for end := time.Now().Add(storm); err == nil && time.Now().Before(end); {
					err = tt.host(x)
				}
				stormed <- errors.Join(err, os.WriteFile(filepath.Join(code, "stop"), nil, 0o644))
			}()
			ctx, cancel := context.WithTimeout(t.Context(), storm+limit)
			defer cancel()
			script := `python3 -ISBc '
import os
while not os.path.exists("stop"):
    f = os.open("x", ` + tt.flags + `, 0o644)
    os.fstat(f)
    os.close(f)
'`
			r, err := rt.Exec(ctx, s.ID(), &runtime.ExecRequest{Command: []string{"sh", "-c", script + " & " + script + " && wait $!"}})
			if err != nil {
				t.Error(err)
			} else if r.ExitCode != 0 {
				t.Errorf("exit code %d: %s", r.ExitCode, r.Stderr)
			}
			if err := <-stormed; err != nil {
				t.Error(err)
			}
			if r, err := s.Exec(t.Context(), "true"); err != nil || r.ExitCode != 0 {
				t.Errorf(`Exec "true": got r %+v, err %v; want err == nil and r.ExitCode == 0`, r, err)
			}
		})
	}
}

// With few open files allowed, gVisor's kernel keeps fewer names, and not a descriptor of the host for each that a program has seen.
func TestFewOpenFiles(t *testing.T) {
	testenv.Unprivileged(t)
	need(t)
	cmd := exec.Command("sh", "-c", `ulimit -n 1024 && exec "$0" run --runtime gvisor --no-codebase -- sh -c 'find /usr/share >/dev/null 2>&1; ls / >/dev/null && echo works'`,
		filepath.Join(testbin.Dir(t), "wolffia"))
	cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+filepath.Join(shimtest.PublicDir(t), "state"))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "works\n" {
		t.Errorf("CombinedOutput: got %.1000s, %v; want %q, nil", out, err, "works\n")
	}
}
