// With runs a command beside a Docker engine of its own. The named user may use the
// engine's socket:
//
//	with USER CMD [ARG...]
//
// Where dockerd is not installed it runs the command without one.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"

	"wolffia/internal/test/dockertest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with:", err)
		code = 1
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) < 2 {
		return 0, errors.New("usage: with USER CMD [ARG...]")
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if _, err := exec.LookPath("dockerd"); err != nil {
		return exitCode(cmd.Run())
	}
	u, err := user.Lookup(args[0])
	if err != nil {
		return 0, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return 0, err
	}
	e, err := dockertest.Start()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	if err := os.Chown(e.Socket, uid, -1); err != nil {
		return 0, err
	}
	cmd.Env = append(os.Environ(), dockertest.Socket+"="+e.Socket)
	return exitCode(cmd.Run())
}

// exitCode returns the exit code of a command that has ended with err, and err if that says
// something else.
func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}
