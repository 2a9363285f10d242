package main

import (
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
	"wolffia/shim"
)

// This is the only file that names concrete backends.

// launchers are the backends that a shim can launch.
func launchers() []runtime.Launcher {
	return []runtime.Launcher{bwrap.Launcher{}, gvisor.Launcher{}, docker.Launcher{}}
}

// usesStore reports whether the runtime runs images of the image store. Others
// have their own.
func usesStore(name string) bool { return name != "docker" }

// A backend may start this program again as a step on its way.
const backendStage = gvisor.StageArg

func runBackendStage() error { return gvisor.Stage() }

// backends are those that sandboxes can be made with; the first is the default.
func backends() []shim.Backend {
	return []shim.Backend{bwrap.Backend(), gvisor.Backend(), docker.Backend()}
}

// newRuntime returns a runtime that has all sandboxes, and makes new ones with
// the named backend, never with another one.
func newRuntime(name string, opts *shim.Options) (*shim.Runtime, error) {
	list := backends()
	var names []string
	for i, b := range list {
		if names = append(names, b.Name); b.Name == name {
			list[0], list[i] = list[i], list[0]
		}
	}
	if name != "" && list[0].Name != name {
		return nil, runtime.Errorf(runtime.ErrInvalid, "there is no runtime %q: there is %s", name, strings.Join(names, ", "))
	}
	return shim.NewRuntime(opts, list[0], list[1:]...)
}
