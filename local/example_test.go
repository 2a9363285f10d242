package local_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// A pool of sandboxes that are started ahead: each Launch takes one, and none has had another user.
func ExampleRuntime_StartPool() {
	ctx := context.Background()
	rt, err := local.New(nil, bwrap.Backend())
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	codebase, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(codebase)

	pool, err := rt.StartPool(ctx, &runtime.SandboxConfig{}, local.PoolOptions{Size: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.StopPool(ctx, pool.Shape)

	sb, err := runtime.Launch(ctx, rt, &runtime.SandboxConfig{
		CodebasePath: codebase,
		Permissions:  []perm.Rule{{Pattern: "**", Level: perm.Read}},
		Env:          map[string]string{"NAME": "Ann"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	res, err := sb.Exec(ctx, "sh", "-c", "echo hello, $NAME")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(res.Stdout))
}
