package bwrap

import (
	"wolffia/runtime"
	"wolffia/shim"
)

// A Runtime makes sandboxes with bubblewrap.
type Runtime struct{ *shim.Runtime }

var _ runtime.RuntimeWithExecutor = (*Runtime)(nil)

// New returns a runtime over the state directory and programs of opts; nil is
// the default. The caller closes it, which leaves the sandboxes alone.
func New(opts *shim.Options) (*Runtime, error) {
	r, err := shim.NewRuntime(Name, opts)
	if err != nil {
		return nil, err
	}
	return &Runtime{r}, nil
}
