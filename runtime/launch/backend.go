package launch

import "wolffia/runtime"

// A Backend is a Launcher, and what the process that starts sandboxes needs to
// know of it.
type Backend struct {
	Launcher
	// Platforms are the values that SandboxConfig.Platform may have.
	Platforms []string
	// Program finds the program on the host that the launcher is given; nil if
	// that looks for its own. It is called at each start, with the directory
	// that wolffia is in.
	Program func(beside string) (string, error)
	// Engine says that the sandboxes run in an engine: then Program is not given
	// to the launcher, but started beside the shim. See package runtime/docker/keeper.
	Engine bool
	// OwnKernel says that a kernel of the sandbox's own answers system calls.
	OwnKernel bool
	// StageArg is the first argument with which the launcher starts the wolffia
	// program again, to call Stage; empty if it does not.
	StageArg string
	Stage    func() error
	// Complete fills in what a configuration leaves to the caller's environment;
	// only with Engine.
	Complete func(*runtime.SandboxConfig) error
}
