package policy_test

import (
	"context"
	"fmt"
	"log"

	"wolffia/local"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// Example runs a command in a sandbox over the working directory, by the rules that the
// command line has. docs/library.md shows it as a program.
func Example() {
	if err := run(context.Background(), ".", "sh", "-c", "ls -A; cat .env; echo edited >> notes.txt"); err != nil {
		log.Fatal(err)
	}
}

// run runs a command in a sandbox of its own over a directory, and prints what it says.
func run(ctx context.Context, dir string, command ...string) error {
	rt, err := local.New(nil, bwrap.Backend()) // wolffia and the programs that it starts are in PATH
	if err != nil {
		return err
	}
	defer rt.Close()
	rules, err := policy.For(ctx, dir, nil) // the preset agent-safe, for this codebase
	if err != nil {
		return err
	}
	sb, err := runtime.Launch(ctx, rt, &runtime.SandboxConfig{
		CodebasePath:  dir,
		Permissions:   rules.Rules,
		BoundToCaller: true, // if this program is killed, the sandbox ends too
	})
	if err != nil {
		return err
	}
	defer sb.Destroy(ctx) // also if ctx has ended, or ends meanwhile
	res, err := sb.Exec(ctx, command...)
	if err != nil {
		return err
	}
	fmt.Printf("%s%s", res.Stdout, res.Stderr)
	return nil
}
