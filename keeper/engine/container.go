package engine

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// An abilities says what an engine can do.
type abilities struct {
	// recursive: it can make a mount read-only with the mounts below it. Without, the
	// mounts below are left out.
	recursive bool
	podman    bool // its tmpfs has options of its own
	rootless  bool // it is the user's own rootless Podman
}

// configs returns the configuration of the container of a sandbox of a place, with the
// image of that name (Docker Engine API, ContainerCreate). It is all of the isolation.
// configs does no I/O.
//
// PID 1 installs the seccomp filter beside the engine's own, which is an OCI profile:
// those compare more bits of an argument than the kernel does.
func configs(spec *launch.Spec, of place, image string, can abilities) (*container.Config, *container.HostConfig) {
	c := &container.Config{
		Image:    image,
		Hostname: spec.Hostname,
		User:     strconv.Itoa(spec.UID) + ":" + strconv.Itoa(spec.GID),
		// The end of the connection, and so of the shim, ends PID 1.
		OpenStdin: true, StdinOnce: true,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Env:         env(spec),
		WorkingDir:  "/",
		Labels:      labels(spec, of),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	h := &container.HostConfig{
		Init:           new(bool), // PID 1 is wolffia's, not the engine's
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		NetworkMode:    "none",
		IpcMode:        "private",
		CgroupnsMode:   "private",
		ReadonlyRootfs: spec.Config.Image == "" || spec.Config.Docker.ReadOnlyRoot,
		// else the engine keeps the stream on disk
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Tmpfs:         map[string]string{},
		Resources:     limits(&spec.Config.Resources),
	}
	if can.rootless {
		h.UsernsMode = keepID
	}
	if spec.Network == runtime.NetworkHost {
		h.NetworkMode = "host"
	} else {
		// The engine does not mount its own files in /etc either.
		c.NetworkDisabled = true
		// PID 1 listens at any port for the host. Docker's default, not Podman's.
		h.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
	}
	covered := func(m *launch.Mount) bool { // an engine refuses two mounts in one place
		return slices.ContainsFunc(spec.Binds, func(b runtime.Mount) bool { return b.Target == m.Target })
	}
	// Engines that use runc give a tmpfs the mode of the directory that it covers, whatever its
	// options say.
	var modes []string
	inMemory := func(m *launch.Mount) {
		h.Tmpfs[m.Target] = tmpfs(spec, m, can)
		modes = append(modes, "--mode", fmt.Sprintf("%04o:%s", m.Mode, m.Target))
	}
	for _, m := range spec.Mounts() {
		switch m.Kind {
		case launch.Shm:
			h.ShmSize = cmp.Or(m.Size, launch.ShmSize)
		case launch.Tmpfs, launch.Parent:
			if covered(&m) {
				continue
			}
			inMemory(&m)
			// which has one without a limit at /var/tmp, if the root is read-only
			if m.Target == "/tmp" && can.podman {
				m.Size /= 2
				m.Target = "/var/tmp"
				inMemory(&m)
			}
		case launch.Bind, launch.Filter:
			h.Mounts = append(h.Mounts, bind(m.Source, m.Target, m.Writable, can))
			if m.Target != "/etc" || !can.podman {
				continue
			}
			for _, name := range spec.Identity { // else Podman mounts its own files there
				h.Mounts = append(h.Mounts, bind(filepath.Join(m.Source, name), "/etc/"+name, false, can))
			}
		case launch.Proc, launch.Dev, launch.Sys, launch.Cover, launch.Symlink: // the engine's own; links are in the image
		}
	}
	c.Entrypoint = spec.Command(launch.FilterPath, modes...)
	return c, h
}

// env returns PID 1's environment.
func env(spec *launch.Spec) []string {
	if spec.Config.Image == "" {
		return spec.Env()
	}
	return spec.EnvOverImage()
}

// tmpfs returns the options of a tmpfs.
func tmpfs(spec *launch.Spec, m *launch.Mount, can abilities) string {
	options := fmt.Sprintf("exec,uid=%d,gid=%d", spec.UID, spec.GID)
	if can.podman {
		// else it copies the directory that it mounts on; owned by the container's user
		options = "exec,notmpcopyup,U"
	}
	options += fmt.Sprintf(",mode=%04o", m.Mode)
	if m.Size > 0 {
		options += fmt.Sprintf(",size=%d", m.Size)
	}
	return options
}

func bind(source, target string, writable bool, can abilities) mount.Mount {
	m := mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: !writable}
	m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
	if !writable { // the engine would leave mounts below it writable
		m.BindOptions.NonRecursive = !can.recursive
		m.BindOptions.ReadOnlyForceRecursive = can.recursive
	}
	return m
}

// limits returns the limits of the container's control group.
func limits(r *runtime.Resources) container.Resources {
	l := container.Resources{
		Memory:     r.Memory,
		MemorySwap: r.Memory, // memory and swap together
		NanoCPUs:   int64(r.CPUs * 1e9),
	}
	if r.PIDs > 0 {
		n := r.PIDs + launch.InitThreads - 1 // no process of a backend counts
		l.PidsLimit = &n
	}
	return l
}
