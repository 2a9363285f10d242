// Wolffia-kube keeps a sandbox in a Kubernetes cluster. It is the only program with the cluster's
// client, and the only process with the credentials of its configuration file. Wolffia starts it, as
// the keeper of a sandbox and for what is asked of a cluster: see [wolffia/keeper].
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"wolffia/keeper"
	"wolffia/keeper/cluster"
	"wolffia/runtime"
	"wolffia/runtime/kubernetes"
)

func main() {
	err := keeper.Main(&keeper.Program{Name: kubernetes.Program, Elsewhere: true, Open: func(stateDir, id string, config *runtime.SandboxConfig) (keeper.Engine, error) {
		return cluster.Open(stateDir, id, config)
	}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", kubernetes.Program, err)
		os.Exit(1)
	}
}
