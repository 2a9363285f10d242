package bwrap

import (
	"strconv"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// seccompFD is where bwrap finds the filter.
const seccompFD = 3

// Args is bubblewrap's command line for spec, without the program's name
// (bwrap(1)). It decides all of the isolation and does no I/O. The seccomp
// filter is read from descriptor 3.
func Args(spec *launch.Spec) []string {
	a := []string{
		// Not --unshare-all: that leaves out what it cannot have.
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup",
	}
	if spec.Network != runtime.NetworkHost {
		a = append(a, "--unshare-net")
	}
	a = append(a,
		"--disable-userns",
		"--cap-drop", "ALL",
		"--uid", strconv.Itoa(spec.UID), "--gid", strconv.Itoa(spec.GID),
		"--hostname", spec.Hostname,
		"--new-session", "--die-with-parent", "--as-pid-1", "--clearenv",
		"--seccomp", strconv.Itoa(seccompFD),
	)
	if spec.RootDir != "" {
		a = append(a, "--bind", spec.RootDir, "/")
	}
	for _, e := range spec.Root {
		if e.Link != "" {
			a = append(a, "--symlink", e.Link, "/"+e.Name)
		} else {
			a = append(a, "--ro-bind", e.Source, "/"+e.Name)
		}
	}
	a = append(a, "--proc", "/proc", "--dev", "/dev")
	for _, m := range spec.Covers {
		a = append(a, "--ro-bind", m.Source, m.Target)
	}
	if spec.Etc != "" {
		a = append(a, "--ro-bind", spec.Etc, "/etc")
	}
	sizes := spec.Sizes()
	if sizes.Dev > 0 {
		// It is a tmpfs that the user may write to.
		a = append(a, "--perms", "1777", "--size", strconv.FormatInt(sizes.Shm, 10), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
	}
	tmpfs := func(target, perms string, size int64) {
		a = append(a, "--perms", perms)
		if size > 0 {
			a = append(a, "--size", strconv.FormatInt(size, 10))
		}
		a = append(a, "--tmpfs", target)
	}
	tmpfs("/tmp", "1777", sizes.Tmp)
	if spec.RootDir == "" {
		a = append(a, "--dir", "/var", "--symlink", "../tmp", "/var/tmp")
	}
	tmpfs(spec.Home, "0700", sizes.Home)
	for _, target := range spec.Scratch {
		tmpfs(target, "0755", sizes.Scratch)
	}
	for _, m := range spec.Binds {
		op := "--ro-bind"
		if m.Writable {
			op = "--bind"
		}
		a = append(a, op, m.Source, m.Target)
	}
	tmpfs(launch.SessionsPath, "0700", sizes.Sessions)
	a = append(a, "--ro-bind", spec.Guest, launch.GuestPath)
	if spec.RootDir == "" {
		a = append(a, "--remount-ro", "/")
	}
	a = append(a,
		"--chdir", "/",
		"--",
	)
	return append(a, spec.Command("")...)
}
