package gvisor

import (
	"wolffia/runtime/launch"
)

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{Launcher: Launcher{}, OwnKernel: true, Platforms: Platforms(), Program: program(), StageArg: stageArg, Stage: stage}
}
