// Package docker launches sandboxes in an engine: Docker, or Podman behind its Docker
// socket. The engine isolates, by what package engine asks of it; all the rest is the same
// guest as everywhere.
//
// Whoever may talk to an engine is as good as root on the host, so the shim,
// which hears from the guest, may not. A process of the caller's own beside it
// does: wolffia-docker keep ID, the keeper. It mounts the filtered tree in the
// host's mount namespace, since the engine cannot see into the shim's, makes the
// container, and passes the connection to PID 1 to the shim. It hears nothing from
// the guest, and from the shim only that the end is wanted; it ends with the shim. It is a program of
// its own since the engine's client would cost every other process of wolffia a
// millisecond at its start.
package docker

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Name is the runtime's name.
const Name = "docker"

// Program is the name of the keeper's program.
const Program = "wolffia-docker"

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{
		Launcher: Launcher{}, Engine: true, Program: program,
		Complete: func(c *runtime.SandboxConfig) error { return complete(c, os.Getenv, exists) },
	}
}

// program finds the keeper's program beside wolffia, else in PATH.
func program(beside string) (string, error) {
	path := filepath.Join(beside, Program)
	if _, err := os.Stat(path); err == nil {
		return filepath.Abs(path)
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "%s is neither beside wolffia nor in PATH: make build makes both", Program)
	}
	return filepath.Abs(path)
}

// complete names the engine, so that it is the same one until the sandbox is
// destroyed, whoever does that.
func complete(c *runtime.SandboxConfig, getenv func(string) string, exists func(path string) bool) error {
	d := runtime.DockerConfig{}
	if c.Docker != nil {
		d = *c.Docker
	}
	c.Docker = &d
	if d.Host == "" {
		d.Host = getenv("DOCKER_HOST")
	}
	if d.Host == "" {
		places := Sockets(getenv("XDG_RUNTIME_DIR"))
		d.Host = "unix://" + places[0]
		for _, p := range places {
			if exists(p) {
				d.Host = "unix://" + p
				break
			}
		}
	}
	if path, ok := strings.CutPrefix(d.Host, "unix://"); !ok || !filepath.IsAbs(path) {
		return runtime.Errorf(runtime.ErrUnsupported, "DOCKER_HOST is %q: it must be unix:///PATH, the socket of an engine on this host: directories are shown to it by their paths", d.Host)
	}
	return nil
}

// Sockets are where engines listen, in the order of preference; runtimeDir is
// the user's own directory (XDG_RUNTIME_DIR), or empty.
func Sockets(runtimeDir string) []string {
	all := []string{"/var/run/docker.sock"}
	if filepath.IsAbs(runtimeDir) {
		all = append(all, filepath.Join(runtimeDir, "docker.sock"), filepath.Join(runtimeDir, "podman", "podman.sock"))
	}
	return append(all, "/run/podman/podman.sock")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
