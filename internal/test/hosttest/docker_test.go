package hosttest

import (
	"archive/tar"
	"bytes"
	"errors"
	"os/exec"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
)

// In a container of Docker's each fix that doctor names leads to the next cause, and the last to a
// host that works.
func TestHostDocker(t *testing.T) {
	testenv.Root(t)
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	engine, err := dockertest.Start()
	if errors.Is(err, exec.ErrNotFound) {
		testenv.Need(t, probe.Docker)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("DOCKER_HOST", "unix://"+engine.Socket)
	// Its programs are the host's.
	const image = "wolffia-test-host:1"
	layer := testimage.Layer(t,
		testimage.File{Name: "bin", Link: "usr/bin"}, testimage.File{Name: "lib", Link: "usr/lib"}, testimage.File{Name: "lib64", Link: "usr/lib64"},
		testimage.File{Name: "usr/"}, testimage.File{Name: "tmp/", Mode: 0o1777}, testimage.File{Name: "project/", Mode: 0o777},
		testimage.File{Name: "etc/passwd", Body: "user:x:1000:1000::/tmp:/bin/sh\n", Mode: 0o644},
		testimage.File{Name: "dev/", Type: tar.TypeDir},
	)
	load := exec.CommandContext(t.Context(), "/usr/bin/docker", "import", "-", image)
	load.Stdin = bytes.NewReader(layer)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v: %s", err, out)
	}
	var options []string
	for _, h := range []struct {
		madeHost
		fix string
	}{
		{madeHost{name: "no option", codes: []string{"container-seccomp", "fuse-container"}}, "--device=/dev/fuse"},
		{madeHost{name: "default profile", codes: []string{"container-seccomp"}}, "--security-opt=seccomp=unconfined"},
		{madeHost{name: "masked proc", codes: []string{"container-proc"}}, "--security-opt=systempaths=unconfined"},
		{madeHost{name: "all options", works: true}, ""},
	} {
		ok := t.Run(h.name, func(t *testing.T) {
			h.check(t, func(args ...string) []byte {
				run := append([]string{
					"run", "--rm", "--network=none", "--user=1000:1000", "--workdir=/project", "--env=HOME=/tmp", "--env=PATH=" + systemPath,
					"--volume=/usr:/usr:ro", "--volume=" + testbin.Dir(t) + ":/opt:ro",
				}, options...)
				cmd := exec.CommandContext(t.Context(), "/usr/bin/docker", append(append(run, image, "/opt/wolffia"), args...)...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				t.Logf("wolffia %q in a container with %q: %v\n%s%s", args, options, err, out, stderr.Bytes())
				return out
			})
		})
		if !ok {
			return
		}
		options = append(options, h.fix)
	}
}
