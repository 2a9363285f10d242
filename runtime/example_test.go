package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"wolffia/runtime"
	"wolffia/runtime/mock"
)

// Use a sandbox by a handle. The mock takes the place of a real runtime, such as that of
// package local.
func ExampleLaunch() {
	ctx := context.Background()
	sb, err := runtime.Launch(ctx, mock.New(), &runtime.SandboxConfig{Env: map[string]string{"NAME": "Ann"}})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	res, err := sb.Exec(ctx, "sh", "-c", "echo hello, $NAME; exit 3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%sexit code %d\n", res.Stdout, res.ExitCode)
	// Output:
	// hello, Ann
	// exit code 3
}

// Open a sandbox by its name, which another process may have made.
func ExampleOpen() {
	ctx, rt := context.Background(), mock.New()
	made, err := runtime.Launch(ctx, rt, &runtime.SandboxConfig{Name: "build"})
	if err != nil {
		log.Fatal(err)
	}
	sb, err := runtime.Open(ctx, rt, "build")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sb.ID() == made.ID())
	if err := sb.Destroy(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = runtime.Open(ctx, rt, "build")
	fmt.Println(errors.Is(err, runtime.ErrNotFound))
	// Output:
	// true
	// true
}

// An error of a runtime has a class, on which a caller acts.
func ExampleClass() {
	ctx, rt := context.Background(), mock.New()
	sb, err := runtime.Launch(ctx, rt, &runtime.SandboxConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	_, err = sb.Exec(ctx, "no-such-program")
	fmt.Println(runtime.Class(err))
	_, err = sb.Session(ctx, "dev") // the mock has no sessions
	fmt.Println(runtime.Class(err))
	// Output:
	// not found
	// unsupported
}
