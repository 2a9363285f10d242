package launch

import "wolffia/runtime"

// A Backend is a Launcher with what the process that starts a sandbox must know.
type Backend struct {
	Launcher
	// Platforms are the permitted values of SandboxConfig.Platform.
	Platforms []string
	// Program finds the launcher's program on the host, before each start; beside is
	// the directory that wolffia is in. nil: the launcher finds it by itself.
	Program func(beside string) (string, error)
	// Engine says that the sandboxes run in an engine. Then Keeper is the name of the
	// keeper's program, one of wolffia's own, which is started beside the shim (package
	// keeper).
	Engine bool
	Keeper string
	// Hands says that PID 1 can be given Spec.Clients: it is a process of the host's kernel, started by the shim.
	Hands bool
	// OwnKernel says that system calls are answered by a kernel of the sandbox's own.
	OwnKernel bool
	// StageArg is the first argument with which the launcher starts wolffia again, to
	// call Stage; empty if it does not.
	StageArg string
	Stage    func() error
	// Complete fills in the parts of a configuration that depend on the caller's
	// environment; only with Engine.
	Complete func(*runtime.SandboxConfig) error
}
