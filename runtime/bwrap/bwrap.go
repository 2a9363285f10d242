package bwrap

import (
	"wolffia/internal/sys/bubblewrap"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{
		Launcher: Launcher{}, Place: launch.BesideShim, Program: program,
		Can: launch.ShimMounts | launch.HostCgroup | launch.StoreImages | launch.HostInodes | launch.HostProcesses | launch.PassClients | launch.RootInside,
	}
}

// program returns the bubblewrap that is shipped with the wolffia in the directory beside, if this host
// needs it; empty: the shim looks for the host's.
func program(beside string) (string, error) {
	path, err := bubblewrap.Shipped(beside)
	if err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "bubblewrap is not installed, or is too old, and the one shipped with wolffia is not used: %w", err)
	}
	return path, nil
}
