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

	"golang.org/x/sys/unix"

	"wolffia/guest"
	"wolffia/guest/archive"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wolffia-guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if os.Getpid() == 1 {
		// Where the backend cannot install the sandbox's filter, it says where it
		// is: guest --seccomp FILE DIRECTORY ID.
		var filter []byte
		if len(args) > 2 && args[0] == "--seccomp" {
			var err error
			if filter, err = os.ReadFile(args[1]); err != nil {
				return err
			}
			if len(filter) == 0 {
				return fmt.Errorf("%s is empty", args[1])
			}
			args = args[2:]
		}
		if err := guest.Harden(filter); err != nil {
			return err
		}
		unix.Umask(0o022)
		if len(args) != 2 {
			return fmt.Errorf("%d arguments, want a directory and an id", len(args))
		}
		return guest.Serve(os.Stdin, os.Stdout, args[0], os.Exit)
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
