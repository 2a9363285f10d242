package gvisor

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/internal/sys/userns"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Spec returns the OCI configuration of a sandbox with the given mounts
// (github.com/opencontainers/runtime-spec). It and [Flags] are all of the isolation.
// Spec does no I/O.
//
// PID 1 installs the seccomp filter, which all of its children inherit: runsc accepts
// filters as OCI profiles only. The filter is mounted, since an image could have
// another file of that name.
func Spec(spec *launch.Spec, mounts []launch.Mount) *specs.Spec {
	s := &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: rootDir(spec), Readonly: spec.RootDir == ""},
		Hostname: spec.Hostname,
		Process: &specs.Process{
			User: specs.User{UID: uint32(spec.UID), GID: uint32(spec.GID)},
			Args: spec.Command(launch.FilterPath),
			Env:  spec.Env(),
			Cwd:  "/",
			// Empty sets, not nil, for which runsc has defaults.
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			// As for a login, with a hard limit that programs may raise theirs to.
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1024, Hard: 1 << 20}},
		},
		Linux: &specs.Linux{
			Namespaces:  []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.UserNamespace}},
			UIDMappings: itself(spec.UID, spec.RootInside),
			GIDMappings: itself(spec.GID, spec.RootInside),
		},
	}
	if spec.RootInside { // they count in gVisor's kernel only
		var all []string
		for _, c := range slices.Concat(launch.RootCapabilities, launch.OwnCapabilities) {
			all = append(all, c.Name)
		}
		s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
	}
	if spec.Network != runtime.NetworkHost {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	uid, gid := "uid="+strconv.Itoa(spec.UID), "gid="+strconv.Itoa(spec.GID)
	add := func(m *launch.Mount, kind, source string, options ...string) {
		if m.Size > 0 {
			options = append(options, "size="+strconv.FormatInt(m.Size, 10))
		}
		s.Mounts = append(s.Mounts, specs.Mount{Destination: m.Target, Type: kind, Source: source, Options: options})
	}
	for _, m := range mounts {
		switch m.Kind {
		case launch.Bind, launch.Filter:
			access := "ro"
			if m.Writable {
				access = "rw"
			}
			add(&m, "bind", m.Source, "rbind", "nosuid", "nodev", access)
		case launch.Proc:
			add(&m, "proc", "proc", "nosuid", "nodev", "noexec")
		case launch.Dev:
			add(&m, "tmpfs", "tmpfs", "nosuid", "noexec")
			add(&launch.Mount{Target: "/dev/pts"}, "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620")
		case launch.Sys:
			add(&m, "sysfs", "sysfs", "nosuid", "nodev", "noexec", "ro")
		case launch.Shm, launch.Tmpfs, launch.Parent:
			options := []string{"nosuid", "nodev", fmt.Sprintf("mode=%04o", m.Mode)}
			if m.Mode != 0o1777 {
				options = append(options, uid, gid)
			}
			add(&m, "tmpfs", "tmpfs", options...)
		case launch.Symlink, launch.Cover: // makeRoot makes the links; /proc is gVisor's own
		}
	}
	return s
}

// itself maps the only id to itself: runsc runs in a user namespace that has this id
// only, and its parts must run as it. With root inside it maps all of userns.IDs.
func itself(id int, root bool) (all []specs.LinuxIDMapping) {
	if root {
		for _, m := range userns.Same() {
			all = append(all, specs.LinuxIDMapping{ContainerID: uint32(m.ContainerID), HostID: uint32(m.HostID), Size: uint32(m.Size)})
		}
		return all
	}
	return []specs.LinuxIDMapping{{ContainerID: uint32(id), HostID: uint32(id), Size: 1}}
}
