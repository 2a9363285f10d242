package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
)

// imageSteps are where the making of an image is killed, in order.
var imageSteps = []string{"image: stage made", "image: layer made", "image: stage filled", "image: added"}

// An image that is killed while it is made, at each step, by the end of the program that makes it
// or of its caller, is not listed, or is whole. What is left goes with image prune, and the same
// command then makes the image.
func TestImages(t *testing.T) {
	testenv.Both(t)
	bin := testbin.Crash(t)
	state := filepath.Join(shimtest.PublicDir(t), "state")
	dir, err := statedir.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	src := testimage.Source(t, store.Config{Env: []string{"PATH=/bin"}}, testimage.Layer(t, testimage.Busybox(t)...))
	src.As = "docker.io/library/base:latest"
	images := store.Open(dir.Path())
	base, err := images.Add(t.Context(), src, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ctxDir := t.TempDir()
	dockerfile := "FROM base\nCOPY file /a/\nLABEL x=y\n"
	for name, text := range map[string]string{"Dockerfile": dockerfile, "file": "content"} {
		if err := os.WriteFile(filepath.Join(ctxDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// wolffia runs a command line; at the step it kills its maker, or itself.
	wolffia := func(at, victim string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "wolffia"), args...)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "WOLFFIA_STATE_DIR=" + state}
		var said bytes.Buffer
		cmd.Stderr = &said
		if at != "" {
			s := newSteps(t)
			defer s.end()
			cmd.Env = append(cmd.Env, s.env())
			s.begin(func(a *arrival) bool { return a.name == at })
			go func() { // ends with the test, or its arrival
				select {
				case a := <-s.held:
					pid := peer(a.conn)
					if victim == "caller" {
						pid = cmd.Process.Pid
					}
					_ = unix.Kill(pid, syscall.SIGKILL)
					a.release()
				case <-ctx.Done():
				}
			}()
		}
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)) + said.String(), err
	}
	out, err := wolffia("", "", "create", "--no-codebase", "--image", "base", "--name", "box")
	if err != nil {
		t.Fatal(out, err)
	}
	defer func() { _, _ = wolffia("", "", "rm", "-f", "box") }()
	for _, args := range [][]string{{"exec", "box", "--", "sh", "-c", "echo made >/made"}, {"stop", "box"}} {
		if out, err := wolffia("", "", args...); err != nil {
			t.Fatal(out, err)
		}
	}
	for _, args := range [][]string{{"commit", "box", "made"}, {"build", "-t", "made", ctxDir}} {
		for _, at := range imageSteps {
			for _, victim := range []string{"maker", "caller"} {
				what := args[0] + ", " + at + ", " + victim
				if out, err := wolffia(at, victim, args...); err == nil {
					t.Errorf("%s: it was not killed: %s", what, out)
				}
				settled(t, images, state)
				all, err := images.List()
				if err != nil {
					t.Fatal(what, err)
				}
				for _, e := range all {
					// A maker that does not notice its caller's end in time makes all of it.
					whole := at == "image: added" || victim == "caller"
					if e.ID != base.ID && (e.Problem != "" || !whole && len(e.Names) > 0) {
						t.Errorf("%s: half made is listed: %+v", what, e)
					}
					if _, err := images.Lowers(e.ID); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, _ = wolffia("", "", "image", "rm", "made") // of a maker that went on: not of the next one
			}
		}
		if out, err := wolffia("", "", args...); err != nil {
			t.Errorf("%s: afterwards: %s, %v", args[0], out, err)
		}
		text, err := wolffia("", "", "image", "ls", "--json")
		var listed []struct{ Names []string }
		if err != nil || json.Unmarshal([]byte(text), &listed) != nil || !strings.Contains(text, "library/made:latest") {
			t.Errorf("%s: %s, %v", args[0], text, err)
		}
		for _, args := range [][]string{{"image", "rm", "made"}, {"image", "prune"}} {
			if out, err := wolffia("", "", args...); err != nil {
				t.Error(args, out, err)
			}
		}
		left, err := filepath.Glob(filepath.Join(state, "images", "[0-9a-f]*"))
		if err != nil || len(left) != 1 {
			t.Errorf("%s: left %q, %v", args[0], left, err)
		}
	}
}

// settled waits until no process makes an image: Prune can remove all stages.
func settled(t *testing.T, images *store.Store, state string) {
	t.Helper()
	wait.Until(t, "the removal of stages", func() bool {
		if _, err := images.Prune(t.Context(), false); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(state, "images", "*.new"))
		return err == nil && len(left) == 0
	})
}

// peer returns the number of the process at the other end.
func peer(conn net.Conn) (pid int) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				pid = int(cred.Pid)
			}
		})
	}
	return pid
}
