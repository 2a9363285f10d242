package host

import (
	"slices"
	"strings"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/backends"
	"wolffia/runtime/launch"
)

// BackendNamed returns the backend of a name, the default one for none, and nil
// for an unknown name.
func BackendNamed(name string) *launch.Backend {
	list := backends.All()
	i := slices.IndexFunc(list, func(b launch.Backend) bool { return name == "" || b.Name() == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// Lacks reports whether the runtime of a name exists without a capability.
func Lacks(name string, capability launch.Capabilities) bool {
	b := BackendNamed(name)
	return b != nil && !b.Can.Has(capability)
}

// newRuntime returns a runtime that has all sandboxes, and makes new ones with
// the named backend, never with another one.
func newRuntime(name string, opts *local.Options) (*local.Runtime, error) {
	first := BackendNamed(name)
	if first == nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "runtime %q does not exist: use one of %s", name, strings.Join(backends.Names(), ", "))
	}
	others := slices.DeleteFunc(backends.All(), func(b launch.Backend) bool { return b.Name() == first.Name() })
	return local.New(opts, *first, others...)
}
