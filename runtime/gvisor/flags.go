package gvisor

import (
	"cmp"
	"path/filepath"
	"strconv"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// DefaultPlatform intercepts system calls on every host
// (gvisor.dev/docs/architecture_guide/platforms).
const DefaultPlatform = "systrap"

// Flags returns runsc's arguments for spec, without the program's name: state is its state
// directory, bundle the directory with config.json, files its hard limit of open files. Flags
// that isolate are stated even if they are the default, which another version may change.
func Flags(spec *launch.Spec, state, bundle string, files uint64) []string {
	network := "none" // a loopback of its own
	if spec.Network == runtime.NetworkHost {
		network = "host"
	}
	flags := []string{
		"--root=" + state,
		"--platform=" + cmp.Or(spec.Platform, DefaultPlatform),
		"--network=" + network,
		"--ignore-cgroups",
		"--host-settings=ignore", // it would check settings that a user cannot change
		// Only the sandbox changes its root directory. The host may change mounted files.
		"--file-access=exclusive",
		"--file-access-mounts=shared",
		"--overlay2=none", // else writes would stay in memory
		"--host-uds=none",
		"--host-fifo=none",
		"--net-raw=false",
		"--allow-suid=false",
		"--allow-flag-override=false",
		// Why gVisor's kernel has ended unasked goes to the shim, which bounds it. What other
		// tasks of it did then is long, and says nothing.
		"--panic-log=/proc/self/fd/2",
		"--traceback=single",
		"--oci-seccomp=false", // see Spec
	}
	if spec.Config != nil && spec.Config.Filter == runtime.FilterStatic {
		// A name that is a mount point cannot be renamed or removed by a process of the
		// mount's own namespace: by the gofer, not by gVisor's kernel.
		flags = append(flags, "--directfs=false")
	}
	if names := cachedNames(len(spec.Mounts())+1, files); names > 0 {
		flags = append(flags, "--dcache="+strconv.FormatUint(names, 10))
	}
	if spec.Memory != nil {
		return append(flags, "restore", "--bundle="+bundle, "--image-path="+filepath.Join(bundle, memoryDir), spec.Tag)
	}
	return append(flags, "run", "--bundle="+bundle, spec.Tag)
}

// cachedNames returns how many names gVisor's kernel may cache, in all mounts, so that at least
// half of its open files are left for programs; 0: its own number, 1000 for each mount. It has up
// to three of the host's files open for a name, and further ones for the directories above.
func cachedNames(mounts int, files uint64) uint64 {
	const own, each = 1000, 4
	if files/2 >= own*each*uint64(mounts) {
		return 0
	}
	return max(files/2/each, 1)
}
