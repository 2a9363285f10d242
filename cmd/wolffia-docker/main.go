// Wolffia-docker is the keeper: the only process of wolffia that talks to a Docker or
// Podman engine. Wolffia starts it, one for each sandbox: see
// [wolffia/runtime/docker/keeper].
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"wolffia/runtime/docker"
	"wolffia/runtime/docker/keeper"
)

func main() {
	if err := keeper.Main(docker.Program); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", docker.Program, err)
		os.Exit(1)
	}
}
