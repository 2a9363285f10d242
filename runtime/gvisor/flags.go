package gvisor

import (
	"cmp"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// DefaultPlatform is how system calls are caught unless a sandbox says
// otherwise: it works everywhere (gvisor.dev/docs/architecture_guide/platforms).
const DefaultPlatform = "systrap"

// Flags is runsc's command line for spec, without the program's name: state is
// its state directory, bundle the directory with config.json. What the
// defaults are in one version may not be in the next, so all that matters is
// said.
func Flags(spec *launch.Spec, state, bundle string) []string {
	network := "none" // a loopback of its own
	if spec.Network == runtime.NetworkHost {
		network = "host"
	}
	return []string{
		"--root=" + state,
		"--platform=" + cmp.Or(spec.Platform, DefaultPlatform),
		"--network=" + network,
		"--ignore-cgroups",
		"--host-settings=ignore", // it would look at, and advise on, what a user cannot change
		// The root directory is nobody else's. All that is
		// mounted is the host's, who may change it at any time.
		"--file-access=exclusive",
		"--file-access-mounts=shared",
		"--overlay2=none", // what is read-only stays so, what is written goes to the host
		"--host-uds=none",
		"--host-fifo=none",
		"--net-raw=false",
		"--allow-suid=false",
		"--allow-flag-override=false",
		"--oci-seccomp=false", // see Spec
		"run",
		"--bundle=" + bundle,
		spec.ID,
	}
}
