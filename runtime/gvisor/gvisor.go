package gvisor

import (
	"wolffia/runtime/launch"
)

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{
		Launcher: Launcher{}, Place: launch.BesideShim,
		Can: launch.ShimMounts | launch.HostCgroup | launch.StoreImages | launch.OwnKernel | launch.RootInside |
			launch.KeepsMemory,
		Platforms: Platforms(), Program: program(), StageArg: stageArg, Stage: stage,
	}
}
