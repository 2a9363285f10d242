package engine

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// filterPath is where the guest finds the seccomp filter that it puts on itself,
// and so on all, beside the engine's own: engines take filters as profiles only,
// which compare more bits than the kernel does.
const filterPath = "/run/wolffia/seccomp"

// shmSize bounds /dev/shm, in bytes.
const shmSize = 64 << 20

// An abilities says what an engine can do.
type abilities struct {
	// recursive: a directory can be shown read-only with what is mounted in it.
	// Without it, what is mounted in it is not shown.
	recursive bool
	// podman: it is Podman, whose tmpfs has options of its own.
	podman bool
	// rootless: it is the user's own rootless Podman.
	rootless bool
}

// configs are all that an engine is told of a sandbox of a place, which runs on image and
// finds the filter in the file filter. They decide all of the isolation, with no
// I/O (Docker Engine API, ContainerCreate).
func configs(spec *launch.Spec, of place, image, filter string, can abilities) (*container.Config, *container.HostConfig) {
	c := &container.Config{
		Image:    image,
		Hostname: spec.Hostname,
		User:     strconv.Itoa(spec.UID) + ":" + strconv.Itoa(spec.GID),
		// PID 1 ends when the connection does: with the shim, whatever ends that.
		OpenStdin: true, StdinOnce: true,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Entrypoint:  spec.Command(filterPath),
		WorkingDir:  "/",
		Labels:      labels(spec, of),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	h := &container.HostConfig{
		Init:           new(bool), // PID 1 is ours, whatever the engine's own default
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		NetworkMode:    "none",
		IpcMode:        "private",
		CgroupnsMode:   "private",
		ReadonlyRootfs: true,
		LogConfig:      container.LogConfig{Type: "none"}, // else the stream would be kept on disk
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		ShmSize:        shmSize,
		Tmpfs:          tmpfs(spec, can),
		Mounts:         mounts(spec, filter, can),
		Resources:      limits(&spec.Config.Resources),
	}
	if can.rootless {
		h.UsernsMode = keepID
	}
	if spec.Network == runtime.NetworkHost {
		h.NetworkMode = "host"
	} else {
		// Then the engine does not put its own files into /etc either.
		c.NetworkDisabled = true
	}
	if shm := spec.Sizes().Shm; shm > 0 {
		h.ShmSize = shm
	}
	if image := spec.Config.Image; image != "" && !spec.Config.Docker.ReadOnlyRoot {
		h.ReadonlyRootfs = false
	}
	return c, h
}

// tmpfs are the directories in memory.
func tmpfs(spec *launch.Spec, can abilities) map[string]string {
	free, own := "exec,mode=", fmt.Sprintf("exec,uid=%d,gid=%d,mode=", spec.UID, spec.GID)
	if can.podman {
		// U is the container's user. It would put what it covers into a tmpfs.
		free, own = "exec,notmpcopyup,mode=", "exec,notmpcopyup,U,mode="
	}
	size := func(n int64) string {
		if n > 0 {
			return fmt.Sprintf(",size=%d", n)
		}
		return ""
	}
	sizes := spec.Sizes()
	all := map[string]string{
		"/tmp":              free + "1777" + size(sizes.Tmp),
		spec.Home:           own + "0700" + size(sizes.Home),
		launch.SessionsPath: own + "0700" + size(sizes.Sessions),
	}
	if can.podman { // which puts one without a limit here, in a root that is read-only
		all["/var/tmp"] = free + "1777" + size(sizes.Scratch)
	}
	for _, target := range spec.Scratch {
		all[target] = own + "0755" + size(sizes.Scratch)
	}
	return all
}

// mounts are what is shown of the host.
func mounts(spec *launch.Spec, filter string, can abilities) []mount.Mount {
	var all []mount.Mount
	show := func(source, target string, writable bool) {
		m := mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: !writable}
		m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
		if !writable { // or what is mounted in it would be writable
			m.BindOptions.NonRecursive = !can.recursive
			m.BindOptions.ReadOnlyForceRecursive = can.recursive
		}
		all = append(all, m)
	}
	for _, e := range spec.Root {
		if e.Link == "" {
			show(e.Source, "/"+e.Name, false)
		}
	}
	if spec.Etc != "" {
		show(spec.Etc, "/etc", false)
		if can.podman { // which puts files of its own over these, unless it is asked for them
			names := []string{"passwd", "group", "hosts", "hostname"}
			if spec.Network == runtime.NetworkHost {
				names = append(names, "resolv.conf")
			}
			for _, name := range names {
				show(filepath.Join(spec.Etc, name), "/etc/"+name, false)
			}
		}
	}
	for _, b := range spec.Binds {
		show(b.Source, b.Target, b.Writable)
	}
	show(spec.Guest, launch.GuestPath, false)
	show(filter, filterPath, false)
	return all
}

// limits are what the sandbox may use of the machine.
func limits(r *runtime.Resources) container.Resources {
	l := container.Resources{
		Memory:     r.Memory,
		MemorySwap: r.Memory, // with swap: no more than without
		NanoCPUs:   int64(r.CPUs * 1e9),
	}
	if r.PIDs > 0 {
		n := r.PIDs + launch.InitThreads
		l.PidsLimit = &n
	}
	return l
}
