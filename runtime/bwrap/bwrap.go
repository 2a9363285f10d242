package bwrap

import (
	"wolffia/runtime/launch"
)

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{
		Launcher: Launcher{}, Place: launch.BesideShim,
		Can: launch.ShimMounts | launch.HostCgroup | launch.StoreImages | launch.HostInodes | launch.HostProcesses | launch.PassClients | launch.RootInside,
	}
}
