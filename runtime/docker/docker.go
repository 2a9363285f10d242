// Package docker launches sandboxes in a container engine: Docker, or Podman behind its
// Docker socket. The engine isolates, by the settings of package engine; PID 1 is the same
// as with every backend.
//
// Access to an engine is as good as root, so the shim, which reads data from the guest,
// does not have it. Another process of the caller does: wolffia-oci keep TAG, the
// keeper. It mounts the filtered tree in the host's mount namespace, since the engine
// cannot see the shim's, creates the container, and sends the connection to PID 1 to the
// shim. It reads nothing from the guest, and from the shim only the request to end the
// sandbox; it ends with the shim. It is a program of its own since the engine's client
// would add a millisecond to the start of every other process of wolffia.
package docker

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Name is the runtime's name.
const Name = "docker"

// Program is the name of the keeper's program.
const Program = "wolffia-oci"

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{
		Launcher: Launcher{}, Place: launch.InEngine, Can: launch.HostInodes, Keeper: Program,
		Complete: func(c *runtime.SandboxConfig) error { return complete(c, os.Getenv, exists) },
		Engine:   engineOf,
	}
}

// complete fills in the engine's address, so that all commands for the sandbox use the
// same one.
func complete(c *runtime.SandboxConfig, getenv func(string) string, exists func(path string) bool) error {
	d := runtime.DockerConfig{}
	if c.Docker != nil {
		d = *c.Docker
	}
	c.Docker = &d
	d.Host = cmp.Or(d.Host, getenv("DOCKER_HOST"))
	if d.Host == "" {
		sockets := Sockets(getenv("XDG_RUNTIME_DIR"))
		d.Host = "unix://" + sockets[max(0, slices.IndexFunc(sockets, exists))]
	}
	if path, ok := strings.CutPrefix(d.Host, "unix://"); !ok || !filepath.IsAbs(path) {
		return runtime.Errorf(runtime.ErrUnsupported, "DOCKER_HOST is %q: it must be unix:///PATH, the socket of an engine on this host, which mounts directories by their paths", d.Host)
	}
	return nil
}

// engineOf returns the part of a completed configuration that names the engine, and the engine's
// address, a URL.
func engineOf(c *runtime.SandboxConfig) (engine runtime.SandboxConfig, address string) {
	host := c.Docker.Host
	return runtime.SandboxConfig{Runtime: Name, Docker: &runtime.DockerConfig{Host: host}}, host
}

// Sockets returns the paths of engines' sockets in the order of preference. runtimeDir is
// XDG_RUNTIME_DIR, or empty.
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
