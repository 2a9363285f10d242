package bwrap

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// seccompFD is the descriptor from which bwrap reads the seccomp filter.
const seccompFD = 3

// usernsFD is the descriptor of the user namespace that the programs of a sandbox with root inside
// get. It follows launch.ClientsFD.
const usernsFD = 5

// Args returns bubblewrap's options for spec, without the program's name and PID 1's command
// (bwrap(1)). They are all of the isolation, also where the shim could do it faster: to compose
// the whole root there saves 0.1 ms, and the golden files would not show its changes. Args does no
// I/O.
func Args(spec *launch.Spec) []string {
	a := []string{"--unshare-user"}
	if spec.RootInside {
		// bubblewrap makes mounts and namespaces in the shim's user namespace, which owns them, and
		// then enters another one below it, where capabilities count for none of them.
		a = []string{"--userns2", strconv.Itoa(usernsFD)}
	}
	// Not --unshare-all: that leaves out namespaces which the kernel refuses.
	a = append(a, "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup")
	if spec.Network != runtime.NetworkHost {
		a = append(a, "--unshare-net")
	}
	if spec.RootInside { // userns.Inner has ended the making of user namespaces
		a = append(a, "--cap-drop", "ALL")
		for _, c := range slices.Concat(launch.RootCapabilities, launch.OwnCapabilities) {
			a = append(a, "--cap-add", c.Name)
		}
	} else {
		a = append(a, "--disable-userns", "--cap-drop", "ALL", "--uid", strconv.Itoa(spec.UID), "--gid", strconv.Itoa(spec.GID))
	}
	a = append(a,
		"--hostname", spec.Hostname,
		"--new-session", "--die-with-parent", "--as-pid-1", "--clearenv",
		"--seccomp", strconv.Itoa(seccompFD),
	)
	for _, v := range spec.Env() {
		name, value, _ := strings.Cut(v, "=")
		a = append(a, "--setenv", name, value)
	}
	if spec.RootDir != "" {
		a = append(a, "--bind", spec.RootDir, "/")
	}
	tmpfs := func(i int, m *launch.Mount) {
		if m.Names > 0 {
			a = append(a, "--bind", memoryDir(spec, i), m.Target)
			return
		}
		a = append(a, "--perms", fmt.Sprintf("%04o", m.Mode))
		if m.Size > 0 {
			a = append(a, "--size", strconv.FormatInt(m.Size, 10))
		}
		a = append(a, "--tmpfs", m.Target)
	}
	for i, m := range spec.Mounts() {
		switch m.Kind {
		case launch.Symlink:
			if dir := path.Dir(m.Target); dir != "/" {
				a = append(a, "--dir", dir) // else bubblewrap creates it with mode 0700
			}
			a = append(a, "--symlink", m.Source, m.Target)
		case launch.Bind, launch.Cover:
			op := "--ro-bind"
			if m.Writable {
				op = "--bind"
			}
			a = append(a, op, m.Source, m.Target)
		case launch.Proc:
			a = append(a, "--proc", m.Target)
		case launch.Dev:
			// a tmpfs without a limit, with a directory shm
			a = append(a, "--dev-bind", devDir(spec), m.Target)
		case launch.Shm:
			if m.Size > 0 {
				tmpfs(i, &m)
				a = append(a, "--remount-ro", "/dev")
			}
		case launch.Tmpfs:
			tmpfs(i, &m)
		case launch.Filter, launch.Sys, launch.Parent:
			// The filter has a descriptor, all of /sys would be the host's, and bubblewrap makes
			// places to mount on as the user.
		}
	}
	if spec.RootDir == "" {
		a = append(a, "--remount-ro", "/")
	}
	return append(a, "--chdir", "/")
}
