// Wolffia-guest is PID 1 of a sandbox. It is started by wolffia, never by
// hand: it speaks frames on its standard input and output.
//
// Any process inside can start it too, as "guest pack PATH" or "guest unpack
// PATH": so wolffia cp moves files, as a command like any other.
//
// The runtime is not to look once a second whether its cgroup's CPU limit has
// changed: there can be many of these processes, and they are idle.
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/guest"
	"wolffia/internal/archive"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wolffia-guest:", err)
		os.Exit(1)
	}
}

// first is PID 1: guest [--seccomp FILE] [--threads N] [--rlimits LIMITS] DIRECTORY ID.
func first(args []string) error {
	var filter []byte // where the backend cannot install it
	var threads int
	var limits *guest.Rlimits
	for len(args) > 2 {
		var err error
		switch args[0] {
		case "--seccomp":
			if filter, err = os.ReadFile(args[1]); err == nil && len(filter) == 0 {
				err = fmt.Errorf("%s is empty", args[1])
			}
		case "--threads":
			threads, err = strconv.Atoi(args[1])
		case "--rlimits":
			limits, err = guest.ParseRlimits(args[1])
		default:
			err = fmt.Errorf("unknown argument %q", args[0])
		}
		if err != nil {
			return err
		}
		args = args[2:]
	}
	if err := guest.Harden(filter, threads); err != nil {
		return err
	}
	unix.Umask(0o022)
	if len(args) != 2 {
		return fmt.Errorf("%d arguments, want a directory and an id", len(args))
	}
	return guest.Serve(os.Stdin, os.Stdout, args[0], limits, os.Exit)
}

func run(args []string) error {
	if os.Getpid() == 1 {
		return first(args)
	}
	if len(args) > 0 && args[0] == guest.LimitArg {
		_ = guest.Limit(os.Args) // PID 1 has been told why
		os.Exit(1)
	}
	if len(args) == 2 {
		switch args[0] {
		case "pack":
			return archive.Pack(os.Stdout, args[1])
		case "unpack":
			return archive.Unpack(os.Stdin, args[1], nil)
		}
	}
	return fmt.Errorf("this is PID 1 of a sandbox, started by wolffia; it is of no use on its own")
}
