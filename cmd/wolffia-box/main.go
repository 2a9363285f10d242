// Wolffia-box is the processes of a sandbox on the host: its shim, and its tree server. wolffia
// starts it. It is a program of its own since the packages of a command line, of a service and of
// its clients would take a third of a start to initialise, twice.
//
//	wolffia-box shim ID
//	wolffia-box tree ID
//
// The shim starts it again for what runs before a backend's program: a start barrier, or a step of
// the backend.
//
// The runtime is not to look once a second whether its cgroup's CPU limit has
// changed: there can be many of these processes, and they are idle.
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"wolffia/fusefs/treeserver"
	"wolffia/internal/child"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/launch"
	"wolffia/shim"
)

// version is set by the linker; see the Makefile.
var version = "dev"

func main() {
	err := run(os.Args)
	if err == nil {
		os.Exit(0)
	}
	// Whoever started it has got the error; standard error is the sandbox's log.
	fmt.Fprintf(os.Stderr, "wolffia-box: %v\n", err)
	os.Exit(1)
}

// run is the process that args, with the program's name, ask for.
func run(args []string) error {
	if len(args) == 3 {
		switch args[1] {
		case "shim":
			return shim.Main(version, backends()...)
		case "tree":
			return treeserver.Main()
		}
	}
	if len(args) > 4 && args[1] == child.HoldArg {
		return child.Hold(args)
	}
	if len(args) > 3 {
		for _, b := range backends() {
			if b.StageArg != "" && b.StageArg == args[1] {
				return b.Stage()
			}
		}
	}
	return fmt.Errorf("arguments %q: wolffia starts this program, for a sandbox", args[1:])
}

// backends are those that cmd/wolffia makes sandboxes with.
func backends() []launch.Backend {
	return []launch.Backend{bwrap.Backend(), gvisor.Backend(), docker.Backend()}
}
