// Package backends lists the backends. It is the only one that names concrete backends.
package backends

import (
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/kubernetes"
	"wolffia/runtime/launch"
)

// Names returns the names of All.
func Names() []string { return launch.Names(All()) }

// All returns the backends that sandboxes can be made with; the first is the default.
func All() []launch.Backend {
	return []launch.Backend{bwrap.Backend(), gvisor.Backend(), docker.Backend(), kubernetes.Backend()}
}
