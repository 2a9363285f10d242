package gvisor

import (
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Spec is the OCI configuration of a sandbox. With [Flags] it decides all of the
// isolation and does no I/O (github.com/opencontainers/runtime-spec).
//
// The guest puts the seccomp filter on itself, and so on all: runsc takes
// filters as OCI profiles only. It is mounted, since what is in the root
// directory of an image is the image's.
func Spec(spec *launch.Spec) *specs.Spec {
	sizes := spec.Sizes()
	s := &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: rootDir(spec), Readonly: spec.RootDir == ""},
		Hostname: spec.Hostname,
		Process: &specs.Process{
			User: specs.User{UID: uint32(spec.UID), GID: uint32(spec.GID)},
			Args: spec.Command(launch.FilterPath),
			Env:  []string{},
			Cwd:  "/",
			// Empty sets, not none: runsc would take none for the default ones.
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			// What a login has; the hard limit is as high as programs may want.
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1024, Hard: 1 << 20}},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: sized(sizes.Dev, "nosuid", "noexec")},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "nodev", "noexec", "ro"}},
			tmpfs("/dev/shm", sized(sizes.Shm, "mode=1777")...),
			tmpfs("/tmp", sized(sizes.Tmp, "mode=1777")...),
		},
		Linux: &specs.Linux{
			Namespaces:  []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.UserNamespace}},
			UIDMappings: itself(spec.UID),
			GIDMappings: itself(spec.GID),
		},
	}
	if spec.Network != runtime.NetworkHost {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	for _, e := range spec.Root {
		if e.Link == "" {
			s.Mounts = append(s.Mounts, bind(e.Source, "/"+e.Name, false))
		}
	}
	if spec.Etc != "" {
		s.Mounts = append(s.Mounts, bind(spec.Etc, "/etc", false))
	}
	uid, gid := "uid="+strconv.Itoa(spec.UID), "gid="+strconv.Itoa(spec.GID)
	s.Mounts = append(s.Mounts, tmpfs(spec.Home, sized(sizes.Home, "mode=0700", uid, gid)...))
	for _, target := range spec.Scratch {
		s.Mounts = append(s.Mounts, tmpfs(target, sized(sizes.Scratch, "mode=0755", uid, gid)...))
	}
	s.Mounts = append(s.Mounts, tmpfs(launch.SessionsPath, sized(sizes.Sessions, "mode=0700", uid, gid)...))
	for _, m := range spec.Binds {
		s.Mounts = append(s.Mounts, bind(m.Source, m.Target, m.Writable))
	}
	s.Mounts = append(s.Mounts, bind(spec.Guest, launch.GuestPath, false), bind(filterFile(spec), launch.FilterPath, false))
	return s
}

// itself maps the one id there is to itself: runsc runs in a user namespace
// that has it, and so must its own parts.
func itself(id int) []specs.LinuxIDMapping {
	return []specs.LinuxIDMapping{{ContainerID: uint32(id), HostID: uint32(id), Size: 1}}
}

func tmpfs(target string, options ...string) specs.Mount {
	return specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev"}, options...)}
}

// sized adds a limit of size to the options of a tmpfs; 0 is none.
func sized(size int64, options ...string) []string {
	if size == 0 {
		return options
	}
	return append(options, "size="+strconv.FormatInt(size, 10))
}

func bind(source, target string, writable bool) specs.Mount {
	access := "ro"
	if writable {
		access = "rw"
	}
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", "nosuid", "nodev", access}}
}
