package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// What wolffia writes is the same image for other programs: they compute the same id. What they
// write of it is the same image again here.
func TestRoundTrip(t *testing.T) {
	testenv.Root(t) // engines
	home := buildHome(t)
	baseFile := filepath.Join(home.dir, "base.tar")
	dockerfile := "FROM base:1\nRUN rm /etc/motd && mkdir /d && ln /bin/busybox /d/b && chown 33:7 /d && rm -r /opt/old && mkdir /opt/old\nLABEL a=b\n"
	ctxDir := filepath.Join(home.dir, "ctx")
	for _, err := range []error{
		os.WriteFile(baseFile, baseArchive(t), 0o644), os.Mkdir(ctxDir, 0o755),
		os.WriteFile(filepath.Join(ctxDir, "Dockerfile"), []byte(dockerfile), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	home.wolffia(t, "image", "import", baseFile, "base:1")
	id := home.wolffia(t, "build", "-q", "-t", "trip:1", ctxDir)
	at := func(name string) string { return filepath.Join(home.dir, name) }
	home.wolffia(t, "image", "export", "trip:1", at("docker.tar"))
	home.wolffia(t, "image", "export", "--format", "oci", "trip:1", at("oci.tar"))
	home.wolffia(t, "image", "export", "trip:1", at("oci")+"/")
	other := &wolffiaHome{dir: home.dir, cred: home.cred, state: "other"}
	imported := func(t *testing.T, file string) {
		t.Helper()
		if got := other.wolffia(t, "image", "import", file); got != id {
			t.Errorf("read again it is %s, want %s", got, id)
		}
		other.wolffia(t, "image", "rm", id)
	}

	t.Run("docker", func(t *testing.T) {
		e, err := dockertest.Start()
		if err != nil {
			t.Skip("NOT COMPARED: no Docker engine: ", err)
		}
		defer func() {
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		}()
		docker := tool(t, "/usr/bin/docker", "DOCKER_HOST=unix://"+e.Socket)
		docker("load", "-i", at("docker.tar"))
		if got := docker("image", "inspect", "--format", "{{.Id}}", "trip:1"); got != id {
			t.Errorf("docker load: it is %s, want %s", got, id)
		}
		docker("save", "-o", at("saved.tar"), "trip:1")
		if err := os.Chmod(at("saved.tar"), 0o644); err != nil {
			t.Fatal(err)
		}
		imported(t, at("saved.tar"))
	})
	t.Run("podman", func(t *testing.T) {
		path, err := exec.LookPath("podman")
		if err != nil {
			t.Skip("NOT COMPARED: no podman")
		}
		run, err := os.MkdirTemp("/tmp", "wolffia-podman-") // podman takes at most 50 characters
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(run)
		podman := func(args ...string) string {
			return tool(t, path)(append([]string{"--root", at("podman"), "--runroot", run, "--storage-driver", "vfs"}, args...)...)
		}
		for _, file := range []string{"docker.tar", "oci.tar"} {
			podman("load", "-i", at(file))
			if got := podman("images", "--no-trunc", "--format", "{{.Id}}"); "sha256:"+got != id {
				t.Errorf("podman load of %s: it is %s, want %s", file, got, id)
			}
		}
		podman("save", "--format", "oci-archive", "-o", at("podman.tar"), id)
		if err := os.Chmod(at("podman.tar"), 0o644); err != nil {
			t.Fatal(err)
		}
		imported(t, at("podman.tar"))
	})
	t.Run("skopeo", func(t *testing.T) {
		path, err := exec.LookPath("skopeo")
		if err != nil {
			t.Skip("NOT COMPARED: no skopeo")
		}
		skopeo := tool(t, path)
		var manifests []string
		for _, from := range []string{"docker-archive:" + at("docker.tar"), "oci-archive:" + at("oci.tar"), "oci:" + at("oci")} {
			var m struct{ Config struct{ Digest string } }
			raw := skopeo("inspect", "--raw", from)
			if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Config.Digest != id {
				t.Errorf("%s: it is %s, %v, want %s", from, m.Config.Digest, err, id)
			}
			manifests = append(manifests, raw)
		}
		if manifests[1] != manifests[2] {
			t.Errorf("the archive has another manifest than the directory: %s, %s", manifests[1], manifests[2])
		}
		skopeo("--insecure-policy", "copy", "oci-archive:"+at("oci.tar"), "oci:"+at("copied")+":trip:1")
		imported(t, at("copied"))
		skopeo("--insecure-policy", "copy", "docker-archive:"+at("docker.tar"), "docker-archive:"+at("copied.tar")+":trip:1")
		imported(t, at("copied.tar"))
	})
}

// tool returns what runs a program and returns its output; its failure fails the test.
func tool(t *testing.T, path string, env ...string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append(os.Environ(), env...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", path, strings.Join(args, " "), err, said.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
}
