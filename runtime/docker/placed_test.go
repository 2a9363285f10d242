package docker_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/fusefs/fusemount"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// imported gives the engine the busybox image with more in it, and returns its name.
func imported(t *testing.T, name string, change []string, more ...tar.Header) string {
	t.Helper()
	first, err := os.ReadFile(busyboxTar(t))
	if err != nil {
		t.Fatal(err)
	}
	const end = 1024 // bytes of zeros
	b := bytes.NewBuffer(first[:len(first)-end])
	w := tar.NewWriter(b)
	for i := range more {
		if err := w.WriteHeader(&more[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import"}
	for _, c := range change {
		args = append(args, "--change", c)
	}
	dockertest.Docker(t, append(args, file, name)...)
	t.Cleanup(func() { dockertest.Docker(t, "rmi", "--force", name) })
	return name
}

// refused creates and starts a sandbox, which must fail and leave nothing.
func refused(t *testing.T, c *runtime.SandboxConfig, class error, why string) {
	t.Helper()
	rt := fresh(t)
	s, err := rt.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); !errors.Is(err, class) || !strings.Contains(err.Error(), why) {
		t.Errorf("%v, want %v with %q", err, class, why)
	}
	destroy(t, rt, s.ID)
}

// A link that an earlier sandbox has left in the codebase moves no mount.
func TestLinkInCodebase(t *testing.T) {
	testenv.Both(t)
	need(t)
	for _, filter := range []runtime.Filter{runtime.FilterFuse, runtime.FilterNone} {
		code, data := shimtest.PublicDir(t), shimtest.PublicDir(t)
		err := os.Symlink("/etc", filepath.Join(code, "data"))
		if os.Geteuid() == 0 { // without a filter, the codebase must not be root's
			err = errors.Join(err, os.Chown(code, 1234, 1234))
		}
		if err != nil {
			t.Fatal(err)
		}
		refused(t, &runtime.SandboxConfig{
			CodebasePath: code, MountPoint: "/workspace", Filter: filter, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}},
			Mounts: []runtime.Mount{{Source: data, Target: "/workspace/data", Writable: true}},
		}, runtime.ErrInvalid, "links are not followed")
		if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
			t.Errorf("%s: left in the mount: %v, %v", filter, left, err)
		}
	}
}

// What is to be mounted in the codebase has its place there, which is the user's.
func TestPlaceInCodebase(t *testing.T) {
	testenv.Both(t)
	need(t)
	rt := fresh(t)
	data := shimtest.PublicDir(t)
	if err := os.WriteFile(filepath.Join(data, "shown"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, rt, &runtime.SandboxConfig{MountPoint: "/workspace", Mounts: []runtime.Mount{{Source: data, Target: "/workspace/a/data"}}})
	if got := sh(t, rt, s.ID, "ls /workspace/a/data; stat -c %u /workspace/a; id -u"); !strings.HasPrefix(got, "shown\n") || len(strings.Fields(got)) != 3 || strings.Fields(got)[1] != strings.Fields(got)[2] {
		t.Errorf("sh %q: got %q; want got begins with %q and len(strings.Fields(got)) == 3 and strings.Fields(got)[1] == strings.Fields(got)[2]",
			"ls /workspace/a/data; stat -c %u /workspace/a; id -u", got, "shown\n")
	}
	destroy(t, rt, s.ID)
}

// A link of the image moves neither PID 1 nor the codebase.
func TestLinkInImage(t *testing.T) {
	testenv.Both(t)
	need(t)
	image := imported(t, "wolffia-test-link:1", []string{"ENV PATH=/bin"},
		tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o777},
		tar.Header{Name: "run/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "run/wolffia", Typeflag: tar.TypeSymlink, Linkname: "/a", Mode: 0o777})
	refused(t, &runtime.SandboxConfig{Image: image}, runtime.ErrConflict, "a symbolic link of the image")
	image = imported(t, "wolffia-test-link:2", []string{"ENV PATH=/bin"},
		tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o777},
		tar.Header{Name: "workspace", Typeflag: tar.TypeSymlink, Linkname: "/a", Mode: 0o777})
	refused(t, &runtime.SandboxConfig{
		Image: image, CodebasePath: shimtest.PublicDir(t), MountPoint: "/workspace", Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}},
	}, runtime.ErrConflict, "mount on /workspace")
}

// A volume of the image hides nothing of the codebase, and leaves nothing there. Others are plain directories.
func TestVolumeOfImage(t *testing.T) {
	testenv.Both(t)
	need(t)
	code := shimtest.PublicDir(t)
	image := imported(t, "wolffia-test-volume:1", []string{"ENV PATH=/bin", "VOLUME /workspace/node_modules"})
	c := &runtime.SandboxConfig{Image: image, CodebasePath: code, MountPoint: "/workspace", Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}
	refused(t, c, runtime.ErrUnsupported, "its VOLUME /workspace/node_modules would hide a part of /workspace")
	if left, err := os.ReadDir(code); err != nil || len(left) > 0 {
		t.Errorf("left in the codebase: %v, %v", left, err)
	}
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Image: imported(t, "wolffia-test-volume:2", []string{"ENV PATH=/bin", `VOLUME ["/data", "/workspace", "/tmp"]`}), MountPoint: "/workspace"})
	if got := sh(t, rt, s.ID, "busybox cat /workspace/file; echo x >/data/x; echo x >/tmp/x"); got != "content" {
		t.Errorf(`sh %q: got %q, want "content"`, "busybox cat /workspace/file; echo x >/data/x; echo x >/tmp/x", got)
	}
	destroy(t, rt, s.ID)
}

// An engine that does not see the codebase's mount is refused, and what it shows instead cannot be written.
func TestEngineElsewhere(t *testing.T) {
	need(t)
	testenv.Root(t)
	withEngine(t, dockertest.StartApart)
	c := &runtime.SandboxConfig{CodebasePath: shimtest.PublicDir(t), MountPoint: "/workspace", Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}
	refused(t, c, runtime.ErrUnsupported, "a mount namespace of its own")
	c.Mounts = []runtime.Mount{{Source: shimtest.PublicDir(t), Target: "/workspace/below"}} // whose place the engine makes
	refused(t, c, runtime.ErrUnsupported, "a mount namespace of its own")
}

// The place that the codebase is mounted on cannot be written, and what is in it nevertheless is removed.
func TestPlaceOfTree(t *testing.T) {
	testenv.Both(t)
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	killPart(t, s.ID, "wolffia-oci keep")
	partless(t, s.ID)
	tree := filepath.Join(rt.State, "sandboxes", s.ID, "engine", "tree")
	if err := fusemount.Unmount(tree, true); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(tree); err != nil || st.Mode().Perm() != 0 {
		t.Errorf("Mode: got %v, err %v; want err == nil and st.Mode().Perm() == 0", st.Mode(), err)
	}
	if err := errors.Join(os.Chmod(tree, 0o700), os.MkdirAll(filepath.Join(tree, "left/behind"), 0o700)); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
}
