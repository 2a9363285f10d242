// Wolffia-oci pulls an image from a registry, makes one, or keeps a sandbox in a container engine.
// What they need would slow each other program's start down. Wolffia starts it, as one of three
// processes:
//
//	wolffia-oci make SIZE                     makes an image: see [wolffia/image/maker]
//	wolffia-oci keep TAG                      is the keeper of a sandbox: see [wolffia/keeper]
//	wolffia-oci pull STATE-DIR MAX-SIZE NAME  pulls an image: see [wolffia/image];
//	                                          with AS, which may be empty, imports it
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"
	"strings"

	"wolffia/internal/host/programs"
	"wolffia/keeper"
	"wolffia/keeper/engine"
	"wolffia/runtime"
	"wolffia/runtime/docker"
)

func main() {
	if len(os.Args) >= 5 && strings.HasPrefix(os.Args[1], "pull") {
		pull(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "make" {
		makeImage(os.Args[2])
		return
	}
	if len(os.Args) == 2 && os.Args[1] == programs.OwnersArg {
		owners()
		return
	}
	err := keeper.Main(&keeper.Program{Name: docker.Program, Open: func(stateDir, id string, config *runtime.SandboxConfig) (keeper.Engine, error) {
		return engine.Open(stateDir, id, config)
	}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", docker.Program, err)
		os.Exit(1)
	}
}
