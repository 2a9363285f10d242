// Package program is a sandbox's shim as a program: wolffia-box, or wolffia-net. Such a program is
// also what runs before a backend's.
package program

import (
	"fmt"
	"os"

	"wolffia/internal/host/egress"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/userns"
	"wolffia/runtime/backends"
	"wolffia/shim"
)

// Main is the main of such a program, and does not return. version is reported to the caller.
// filter starts networks that names filter; nil: this program has none.
func Main(version string, filter egress.Start) {
	if err := run(os.Args, version, filter); err != nil {
		// Its starter has got the error; standard error is the sandbox's log.
		fmt.Fprintf(os.Stderr, "wolffia: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is the process that args, with the program's name, ask for.
func run(args []string, version string, filter egress.Start) error {
	if len(args) == 3 && args[1] == "shim" {
		return shim.Main(version, filter, backends.All()...)
	}
	if len(args) == 3 && args[1] == userns.RemoveArg {
		return rmtree.Remove(os.NewFile(userns.RemoveFD, "directory"), args[2])
	}
	if len(args) > 4 && args[1] == child.HoldArg {
		return child.Hold(args)
	}
	if len(args) > 3 {
		for _, b := range backends.All() {
			if b.StageArg != "" && b.StageArg == args[1] {
				return b.Stage()
			}
		}
	}
	return fmt.Errorf("arguments %q: wolffia starts this program, for a sandbox", args[1:])
}
