// Wolffia-box is the shim of a sandbox, unless names filter its network: then wolffia-net is.
// wolffia starts it. It is a program of its own since the packages of a command line, of a service
// and of its clients would take a third of a start to initialise, and those of a tree server or a
// network as much again.
//
//	wolffia-box shim TAG
//
// What is left of a sandbox with root inside is deleted by it, in a user namespace with the ids of
// its files:
//
//	wolffia-box remove NAME
//
// The shim starts it again for what runs before a backend's program: a start barrier, or a step of
// the backend.
//
// The runtime is not to look once a second whether its cgroup's CPU limit has
// changed: there can be many of these processes, and they are idle.
//
//go:debug updatemaxprocs=0
package main

import "wolffia/shim/program"

// version is set by the linker; see the Makefile.
var version = "dev"

func main() { program.Main(version, nil) }
