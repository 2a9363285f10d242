package gvisor

import (
	"wolffia/runtime"
	"wolffia/shim"
)

// A Runtime makes sandboxes with gVisor.
type Runtime struct{ *shim.Runtime }

var _ runtime.RuntimeWithSession = (*Runtime)(nil)

// Backend is what a [shim.Runtime] has to know of it.
func Backend() shim.Backend {
	return shim.Backend{Name: Name, OwnKernel: true, Platforms: Platforms(), Program: program()}
}

// New returns a runtime over the state directory and programs of opts; nil is
// the default. The caller closes it, which leaves the sandboxes alone. Which
// runsc there is matters when a sandbox is started: see [Find].
func New(opts *shim.Options) (*Runtime, error) {
	r, err := shim.NewRuntime(opts, Backend())
	if err != nil {
		return nil, err
	}
	return &Runtime{r}, nil
}
