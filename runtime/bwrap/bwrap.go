package bwrap

import (
	"wolffia/runtime/launch"
)

// Backend is the backend for package local's New.
func Backend() launch.Backend { return launch.Backend{Launcher: Launcher{}, Hands: true} }
