// Wolffia-docker is the keeper: the only process of wolffia that talks to a Docker or
// Podman engine. Wolffia starts it, one for each sandbox: see
// [wolffia/keeper].
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"wolffia/keeper"
	"wolffia/runtime/docker"
)

func main() {
	if err := keeper.Main(docker.Program); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", docker.Program, err)
		os.Exit(1)
	}
}
