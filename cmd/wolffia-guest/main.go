// Wolffia-guest is PID 1 of a sandbox. wolffia starts it; it speaks frames on its
// standard input and output.
//
// Any process inside can also run it as a command that moves files between the
// sandbox and its standard streams, as wolffia cp, wolffia mcp and the service do:
//
//	guest pack PATH
//	guest unpack PATH
//	guest serve-files
//
//	guest replica DIRECTORY
//
// Packages filecall and replica describe the last ones. From outside of a sandbox whose PID 1 has no stream, as in
// a pod, it is executed as the connection to PID 1:
//
//	guest connect NAME
//
// Before, an init container of the pod puts the program into the pod:
//
//	guest install PATH
//
// In a sandbox with root inside it also runs commands as
// other users, for wolffia exec --user and, by the name sudo, for programs that call that:
//
//	guest as USER CMD...
//
// updatemaxprocs=0 keeps the Go runtime from reading the cgroup's CPU limit once a
// second: there can be many of these processes, and they are idle.
//
//go:debug updatemaxprocs=0
package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/guest"
	"wolffia/internal/archive"
	"wolffia/internal/filecall"
	"wolffia/internal/replica"
)

func main() {
	if code, err, is := others(os.Args); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, "wolffia:", err)
		}
		os.Exit(code)
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wolffia-guest:", err)
		os.Exit(1)
	}
}

// first runs PID 1: guest [--seccomp FILE] [--threads N] [--rlimits LIMITS] [--files N] [--root CAPABILITIES] [--mode
// MODE:DIRECTORY]... [--codebase DIRECTORY --link NAME]... [--clients DESCRIPTOR] [--filter BASE64]
// [--pod NETWORK] [--listen NAME --alone SECONDS] DIRECTORY TAG.
func first(args []string) error {
	var filter []byte // nil: the backend has installed it
	var threads int
	var limits *guest.Rlimits
	var clients *os.File
	var codebase, listen string
	var alone int
	for len(args) > 2 {
		var err error
		switch args[0] {
		case "--seccomp":
			if filter, err = os.ReadFile(args[1]); err == nil && len(filter) == 0 {
				err = fmt.Errorf("%s is empty", args[1])
			}
		case "--threads":
			threads, err = strconv.Atoi(args[1])
		case "--clients":
			var fd int
			if fd, err = strconv.Atoi(args[1]); err == nil {
				clients = polled(fd, "clients")
			}
		case "--rlimits":
			limits, err = guest.ParseRlimits(args[1])
		case "--mode":
			err = guest.SetMode(args[1])
		case "--codebase":
			codebase = args[1]
		case "--link":
			guest.LinkCodebase(codebase, args[1])
		case "--root":
			var capabilities uint64
			if capabilities, err = strconv.ParseUint(args[1], 10, 64); err == nil {
				err = guest.LimitRoot(capabilities)
			}
		case "--filter":
			if filter, err = base64.StdEncoding.DecodeString(args[1]); err == nil && len(filter) == 0 {
				err = errors.New("the filter is empty")
			}
		case "--pod":
			err = guest.CheckPod(args[1] != "host")
		case "--listen":
			listen = args[1]
		case "--alone":
			alone, err = strconv.Atoi(args[1])
		case "--files":
			var most uint64
			if most, err = strconv.ParseUint(args[1], 10, 64); err == nil {
				err = guest.LimitFiles(most)
			}
		default:
			err = fmt.Errorf("unknown argument %q", args[0])
		}
		if err != nil {
			return err
		}
		args = args[2:]
	}
	if err := guest.Harden(); err != nil {
		return err
	}
	unix.Umask(0o022)
	if len(args) != 2 {
		return fmt.Errorf("%d arguments, want a directory and a tag", len(args))
	}
	guard := func() error { return guest.Guard(filter, threads) }
	if threads > 0 { // there is a limit: if it is too low for them, the sandbox does not start
		if err := guard(); err != nil {
			return err
		}
		guard = func() error { return nil }
	}
	if listen != "" {
		return guest.ServeOutside(listen, time.Duration(alone)*time.Second, args[0], limits, guard, os.Exit)
	}
	// A read that blocks holds a thread: for each frame the runtime would change threads.
	return guest.Serve(polled(unix.Stdin, "standard input"), os.Stdout, args[0], limits, clients, guard, os.Exit)
}

func run(args []string) error {
	if len(args) == 2 && args[0] == guest.InstallArg { // as PID 1 of a container of its own
		return guest.Install(args[1])
	}
	if len(args) == 1 && args[0] == guest.StayArg { // likewise
		return guest.Stay()
	}
	if os.Getpid() == 1 {
		return first(args)
	}
	if len(args) == 1 && args[0] == filecall.Arg {
		unix.Umask(0o022)
		return filecall.Serve(os.Stdout, stdinUntilSignal())
	}
	if len(args) == 2 {
		switch args[0] {
		case "pack":
			skipped, err := archive.Pack(os.Stdout, args[1])
			if skipped != "" {
				fmt.Fprintln(os.Stderr, skipped)
			}
			return err
		case replica.Arg:
			return replica.Serve(args[1], polled(unix.Stdin, "standard input"), os.Stdout)
		case guest.ConnectArg:
			return guest.Connect(args[1], polled(unix.Stdin, "standard input"), os.Stdout)
		case "unpack":
			return archive.Unpack(os.Stdin, args[1], nil)
		}
	}
	return fmt.Errorf("arguments %q: wolffia starts this program, as PID 1 of a sandbox", args)
}

// polled returns a descriptor as a file whose reads wait in the runtime's poller.
func polled(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// stdinUntilSignal returns standard input, whose reads fail after a signal that asks
// the program to end: so the program undoes what it has done.
func stdinUntilSignal() *os.File {
	f := polled(unix.Stdin, "standard input") // or os could not interrupt a read
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	go func() { // ends with the program
		<-asked
		_ = f.SetReadDeadline(time.Unix(1, 0))
	}()
	return f
}
