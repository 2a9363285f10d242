// Wolffia runs commands in rootless sandboxes over a filtered codebase.
//
// The runtime is not to look once a second whether its cgroup's CPU limit has
// changed: there can be many of these processes, and they are idle.
//
//go:debug updatemaxprocs=0
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// noGC is a setting of the garbage collector (GOGC) with which it does not run before 16 MB are in use.
const noGC = 400

func main() {
	// The helper processes come first: they load nothing that they do not need.
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "shim":
			exitHelper(shim.Main(version, backends()...))
		case "tree":
			exitHelper(treeserver.Main())
		}
	}
	if len(os.Args) > 4 && os.Args[1] == child.HoldArg {
		exitHelper(child.Hold(os.Args))
	}
	if len(os.Args) > 3 {
		if stage := stageOf(os.Args[1]); stage != nil {
			exitHelper(stage())
		}
	}
	rareGC()
	ctx, stop := untilSignal(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// commandGC is GOGC for commands: the first collection is at 12 MB. A command that runs another one
// would just reach the usual 4 MB, and end.
const commandGC = 300

// rareGC has garbage collected late, unless the user says when.
func rareGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(commandGC)
	}
}

// usualGC is for commands that live long. It undoes rareGC.
func usualGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100)
	}
}

// exitHelper ends a helper process. Its errors have been reported to whoever
// started it; standard error is the sandbox's log.
func exitHelper(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, io stdio) int {
	a := &app{stdio: io}
	root := a.command()
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		a.complete(root)
	}
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exitCode(ctx, a.located(err), a.wantsJSON(cmd, args))
}
