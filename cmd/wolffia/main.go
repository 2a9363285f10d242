// Wolffia runs commands in rootless sandboxes over a filtered codebase.
//
// Built with the tag small it starts faster, and executes wolffia-serve, which is built without
// the tag, for the commands that serve.
//
// The runtime is not to look once a second whether its cgroup's CPU limit has
// changed: there can be many of these processes, and they are idle.
//
//go:debug updatemaxprocs=0
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/complete"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/internal/sys/hostpath"
	"wolffia/local"
)

// noGC is a setting of the garbage collector (GOGC) with which it does not run before 16 MB are in
// use.
const noGC = 400

func main() {
	umask := leaveOwner()
	if os.Getenv("PATH") == "" { // as after env -i; a shell has such a value of its own, too
		_ = os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if err := checkPoller(); err != nil {
		fmt.Fprintln(os.Stderr, "wolffia:", err)
		os.Exit(console.ExitFailed)
	}
	// Most commands end before a collection would pay: one takes a wolffia run one to three
	// milliseconds of its start.
	usual := debug.SetGCPercent(noGC)
	time.AfterFunc(time.Second, func() { debug.SetGCPercent(usual) })
	out, err := console.Standard(unix.Stdout, "/dev/stdout")
	complaints, err2 := console.Standard(unix.Stderr, "/dev/stderr")
	if err := cmp.Or(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, "wolffia:", err)
		os.Exit(console.ExitFailed)
	}
	os.Exit(run(os.Args[1:], console.New(os.Stdin, out, complaints), umask))
}

// leaveOwner takes the owner's bits out of the umask of this process, and returns the umask that
// it had. wolffia and the programs that it starts make files to use them: with a umask such as
// 0277 they could not. It is for main: another thread that makes a file meanwhile could do so
// without permissions.
func leaveOwner() (umask uint32) {
	umask = uint32(unix.Umask(0o777))
	unix.Umask(int(umask &^ 0o700))
	return umask
}

// primingCommands are the commands that read the record of a sandbox first, and take little time.
var primingCommands = []string{"exec", "inspect", "ls", "rm", "stop"}

// run executes one command line and returns its exit code; umask is the caller's.
func run(args []string, io *console.Console, umask uint32) int {
	a := &app{Host: &host.Host{Console: io, Umask: &umask, Version: version}}
	ctx, handler := signals.Watch(context.Background())
	a.Signals = handler
	defer handler.End(context.Canceled)
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	hostpath.Distrust(hostdir.Codebase, hostdir.Default)
	if slices.Contains(primingCommands, word) {
		local.PrimeJSONForUse() // beside the command line
	}
	root := a.command(word)
	if word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd {
		complete.New(a.Host).Complete(root)
	}
	root.SetArgs(args)
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exitCode(ctx, err, a.wantsJSON(cmd, args))
}
