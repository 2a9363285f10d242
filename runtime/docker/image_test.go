package docker_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// busybox gives the engine an image of the host's static busybox, with a
// directory for everybody, and returns its name.
func busybox(t *testing.T) string {
	t.Helper()
	const name = "wolffia-test-busybox:1"
	dockertest.Docker(t, "import", "--change", "ENV FROM_IMAGE=yes", "--change", "ENV PATH=/bin", "--change", "WORKDIR /data", busyboxTar(t), name)
	return name
}

// busyboxTar is the content of that image.
func busyboxTar(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(testenv.Busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
		{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777},
		{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o777},
	} {
		err := w.WriteHeader(&h)
		if err == nil && h.Size > 0 {
			_, err = w.Write(program)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/image.tar"
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A sandbox runs on the engine's image, as its own user, and keeps what it
// changes until it is destroyed.
func TestImage(t *testing.T) {
	testenv.Both(t)
	need(t)
	image := busybox(t)
	rt := fresh(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Image: image, Env: map[string]string{"MINE": "too"}})
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sh(t, rt, s.ID, "echo $FROM_IMAGE $MINE; busybox pwd; busybox ls -A /; echo kept >/data/file"), "yes too\n/data\n"; !strings.HasPrefix(got, want) || strings.Contains(got, "usr") {
		t.Errorf(`sh: got %q; want got begins with %q and got does not contain "usr"`, got, want)
	}
	if got := sh(t, rt, s.ID, "busybox id -u; busybox id -un; (echo x >/bin/new) 2>/dev/null || echo refused"); !strings.HasSuffix(got, "refused\n") || strings.HasPrefix(got, "0\n") {
		t.Errorf("sh: got %q; want got ends with %q and got does not begin with %q", got, "refused\n", "0\n")
	}
	for range 2 {
		if err := rt.Stop(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if got := dockertest.Docker(t, "inspect", "--format", "{{.State.Status}}", "wolffia-"+s.ID); got != "exited\n" && got != "stopped\n" { // as Podman says
			t.Errorf("its container is %q", got)
		}
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if got := sh(t, rt, s.ID, "busybox cat /data/file"); got != "kept\n" {
			t.Errorf(`sh "busybox cat /data/file": got %q, want %q`, got, "kept\n")
		}
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
}

// The directories in memory have their own modes, whatever those that the image has in their places.
func TestImageModes(t *testing.T) {
	testenv.Both(t)
	need(t)
	image := imported(t, "wolffia-test-modes:1", []string{"ENV PATH=/bin"},
		tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "workspace/", Typeflag: tar.TypeDir, Mode: 0o555},
		tar.Header{Name: "var/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "home", Typeflag: tar.TypeSymlink, Linkname: "var", Mode: 0o777})
	rt := fresh(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Image: image, MountPoint: "/workspace"})
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, rt, s.ID, `busybox stat -c %a /tmp "$HOME" /workspace; echo x >/tmp/x; echo x >"$HOME/x"; echo x >/workspace/x`); got != "1777\n700\n755\n" {
		t.Errorf("sh: got %q, want %q", got, "1777\n700\n755\n")
	}
	destroy(t, rt, s.ID)
}

// When the container with a stopped sandbox's changes was removed, the loss is an error.
func TestImageChangesLost(t *testing.T) {
	need(t)
	image := busybox(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Image: image})
	for range 2 { // also if it was stopped before
		if err := rt.Stop(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	dockertest.Docker(t, "rm", "wolffia-"+s.ID)
	for range 2 {
		if err := rt.Start(t.Context(), s.ID); !errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), "changes are lost") {
			t.Error(err)
		}
	}
	destroy(t, rt, s.ID)
}

func TestImageReadOnly(t *testing.T) {
	need(t)
	image := busybox(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Image: image, Docker: &runtime.DockerConfig{ReadOnlyRoot: true}})
	if got := sh(t, rt, s.ID, "busybox cat file; (echo x >/data/file) 2>/dev/null || echo refused; echo x >/tmp/file"); got != "contentrefused\n" {
		t.Errorf("sh: got %q, want %q", got, "contentrefused\n")
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	gone(t, s.ID)
	destroy(t, rt, s.ID)
}

// An image that cannot be had is an error, and no sandbox.
func TestImageMissing(t *testing.T) {
	need(t)
	rt := fresh(t)
	for image, class := range map[string]error{
		"127.0.0.1:1/none:latest": runtime.ErrNotFound,
		"No Such Name":            runtime.ErrInvalid,
	} {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Image: image})
		if !errors.Is(err, class) || !strings.Contains(err.Error(), image) {
			t.Errorf("Create: got image %s, s %+v, err %v; want err is %v and err.Error() contains %v", image, s, err, class, image)
		}
	}
	if all, err := rt.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("List: got all %v, err %v; want err == nil and len(all) <= 0", all, err)
	}
}

// A sandbox that is bound to its caller leaves nothing when that ends, also of
// what it has changed in its image.
func TestImageBoundToCaller(t *testing.T) {
	need(t)
	image := busybox(t)
	rt := fresh(t)
	caller := backend.Reopen(t, rt)
	s, err := caller.Create(t.Context(), &runtime.SandboxConfig{Image: image, BoundToCaller: true})
	if err == nil {
		err = caller.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	sh(t, caller, s.ID, "echo x >/data/file")
	if err := caller.Close(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is gone", func() bool {
		all, err := rt.List(t.Context())
		return err == nil && len(all) == 0
	})
	wait.Until(t, "its processes are gone", func() bool { return len(partsOf(t, s.ID)) == 0 })
	gone(t, s.ID)
}
