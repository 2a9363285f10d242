package main

import (
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/shim"
)

// This is the only file that names concrete backends.

// launchers are the backends that a shim can launch.
func launchers() []runtime.Launcher { return []runtime.Launcher{bwrap.Launcher{}} }

// usesStore reports whether the runtime runs images of the image store. Others
// have their own.
func usesStore(name string) bool { return name != "docker" }

// newRuntime returns the runtime with the given name, never another one.
func newRuntime(name string, opts *shim.Options) (*shim.Runtime, error) {
	switch name {
	case "", bwrap.Name:
		rt, err := bwrap.New(opts)
		if err != nil {
			return nil, err
		}
		return rt.Runtime, nil
	case "gvisor", "docker":
		return nil, runtime.Errorf(runtime.ErrUnsupported, "runtime %q is not supported yet: there is %s", name, bwrap.Name)
	}
	return nil, runtime.Errorf(runtime.ErrInvalid, "there is no runtime %q: there is %s", name, bwrap.Name)
}
