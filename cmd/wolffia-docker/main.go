// Wolffia-docker is what of wolffia talks to a Docker or Podman engine. It is
// started by wolffia, for one sandbox: see [wolffia/runtime/docker/keeper].
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
