package main

import (
	"slices"
	"strings"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/launch"
)

// This file and shim/program name concrete backends, and no others.

// backends are those that sandboxes can be made with; the first is the default.
func backends() []launch.Backend {
	return []launch.Backend{bwrap.Backend(), gvisor.Backend(), docker.Backend()}
}

// backendNamed returns the backend of a name, the default one for none, and nil
// for an unknown name.
func backendNamed(name string) *launch.Backend {
	list := backends()
	i := slices.IndexFunc(list, func(b launch.Backend) bool { return name == "" || b.Name() == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// hasEngine reports whether the runtime of a name runs sandboxes in an engine, which
// has images of its own. Others run those of the image store.
func hasEngine(name string) bool {
	b := backendNamed(name)
	return b != nil && b.Engine
}

// newRuntime returns a runtime that has all sandboxes, and makes new ones with
// the named backend, never with another one.
func newRuntime(name string, opts *local.Options) (*local.Runtime, error) {
	first := backendNamed(name)
	var names []string
	var others []launch.Backend
	for _, b := range backends() {
		names = append(names, b.Name())
		if first != nil && b.Name() != first.Name() {
			others = append(others, b)
		}
	}
	if first == nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "runtime %q does not exist: use one of %s", name, strings.Join(names, ", "))
	}
	return local.New(opts, *first, others...)
}
