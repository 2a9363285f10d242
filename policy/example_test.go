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

// Run a command in a sandbox over a codebase, by the rules that the command line
// has: README.md shows the same.
func Example() {
	ctx, dir := context.Background(), "/home/ann/project"
	rt, err := local.New(nil, bwrap.Backend()) // needs wolffia and wolffia-guest in PATH
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	rules, err := policy.For(ctx, dir, nil) // the default preset, for this codebase
	if err != nil {
		log.Fatal(err)
	}
	box, err := rt.Create(ctx, &runtime.SandboxConfig{CodebasePath: dir, Permissions: rules.Rules})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Destroy(ctx, box.ID)
	if err := rt.Start(ctx, box.ID); err != nil {
		log.Fatal(err)
	}
	res, err := rt.Exec(ctx, box.ID, &runtime.ExecRequest{Command: []string{"make", "test"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", res.Stdout)
}
