package bwrap_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/testimage"
	"wolffia/runtime"
)

// busybox puts a real system into a runtime's image store.
func busybox(t *testing.T, rt *testRuntime, name string, c store.Config, more ...testimage.File) *store.Image {
	t.Helper()
	src := testimage.Source(t, c, testimage.Layer(t, testimage.Busybox(t)...), testimage.Layer(t, more...))
	src.As = name
	img, err := store.Open(rt.state).Add(t.Context(), src, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// on starts a sandbox, which is destroyed in the end.
func on(t *testing.T, rt *testRuntime, c *runtime.SandboxConfig) *runtime.Sandbox {
	t.Helper()
	s, err := rt.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Destroy(context.WithoutCancel(t.Context()), s.ID); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Error(err)
		}
	})
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

// says runs a shell script and wants its output, and no error.
func says(t *testing.T, rt *testRuntime, id, script, want string) {
	t.Helper()
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"/bin/sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Stdout); got != want || r.ExitCode != 0 {
		t.Errorf("%s: %d, %q, want %q; %s", script, r.ExitCode, got, want, r.Stderr)
	}
}

// A sandbox on an image may change all of it. What it changes is its own, is
// there after a stop, and goes with it.
func TestImage(t *testing.T) {
	need(t)
	rt := fresh(t)
	img := busybox(t, rt, "docker.io/library/bb:latest", store.Config{
		Env: []string{"PATH=/bin", "COLOUR=green", "not a variable=x", "SIZE=1"}, WorkingDir: "/root", User: "root",
	}, testimage.File{Name: "srv/"})
	a := on(t, rt, &runtime.SandboxConfig{Image: "bb", Env: map[string]string{"SIZE": "2"}})
	b := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})

	says(t, rt, a.ID, "cat /etc/os-release; pwd; echo $COLOUR $SIZE; ls -d /usr /lib64 2>/dev/null || true; ls /", func() string {
		out := "ID=testimage\n/root\ngreen 2\n"
		dirs, _ := os.ReadDir(store.Open(rt.state).Rootfs(img.ID))
		for _, d := range dirs {
			if d.Name() == "usr" || d.Name() == "lib64" {
				out += "/" + d.Name() + "\n"
			}
		}
		all := map[string]bool{"dev": true, "home": true, "proc": true, "run": true, "workspace": true}
		for _, d := range dirs {
			all[d.Name()] = true
		}
		return out + sorted(all)
	}())
	says(t, rt, a.ID, "id -u >/id && rm /etc/os-release && mkdir /new && echo x >/new/file && mv /srv /elsewhere && chmod 700 /bin && echo changed >>/etc/passwd; ls /new", "file\n")
	says(t, rt, b.ID, "cat /etc/os-release; ls -d /srv; ls /new 2>&1 || true", "ID=testimage\n/srv\nls: /new: No such file or directory\n")

	if err := rt.Stop(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	says(t, rt, a.ID, "cat /new/file; ls -d /elsewhere; ls /etc/os-release /srv 2>/dev/null || echo gone", "x\n/elsewhere\ngone\n")
	r, err := rt.Exec(t.Context(), a.ID, &runtime.ExecRequest{Command: []string{"cat", "/etc/passwd"}})
	if err != nil || strings.Count(string(r.Stdout), "/home/") != 1 || !strings.Contains(string(r.Stdout), "daemon:") {
		t.Errorf("%v, %s", err, r.Stdout)
	}
	upper := filepath.Join(rt.state, "sandboxes", a.ID, "run", "upper")
	if _, err := os.Stat(filepath.Join(upper, "new", "file")); err != nil {
		t.Error(err)
	}
	if err := rt.Destroy(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(rt.state, "sandboxes", a.ID)); err == nil {
		t.Error("something is left")
	}
}

func sorted(names map[string]bool) string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(names)) {
		b.WriteString(n + "\n")
	}
	return b.String()
}
