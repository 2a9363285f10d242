// Wolffia-net is wolffia-box for a sandbox whose network names filter.
//
//	wolffia-net shim TAG
//
//go:debug updatemaxprocs=0
package main

import (
	"wolffia/internal/host/gateway"
	"wolffia/shim/program"
)

// version is set by the linker; see the Makefile.
var version = "dev"

func main() { program.Main(version, gateway.Filter) }
