package child

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// HoldArg is the first argument of wolffia when it is to wait, and then to become
// what a [Held] command is of.
const HoldArg = "hold"

// Held returns the command, for StartPiped, of a process that becomes c when a
// byte comes through gate, and ends if gate ends before: so what belongs around a
// program can be made when it has a process already, and does not run yet. With
// no gate it is c itself. The caller's program must be wolffia; gate stays the
// caller's.
func Held(c *Command, gate *os.File) *Command {
	if gate == nil {
		return c
	}
	held := *c
	held.Path = "/proc/self/exe"
	held.Args = append([]string{"wolffia", HoldArg, strconv.Itoa(3 + len(c.Files)), c.Path}, c.Args...)
	held.Files = append(c.Files[:len(c.Files):len(c.Files)], gate)
	return &held
}

// Hold is the main of a held process, with the arguments that Held has made. It
// returns if it fails.
func Hold(args []string) error {
	if len(args) < 5 || args[1] != HoldArg {
		return errors.New("this is started by wolffia, not by hand")
	}
	fd, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("descriptor %q: %w", args[2], err)
	}
	unix.CloseOnExec(fd)
	for {
		n, err := unix.Read(fd, make([]byte, 1))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for the limits: %w", err)
		case n == 0:
			return errors.New("whoever started this sandbox has given it up")
		}
		break
	}
	return fmt.Errorf("start %s: %w", args[3], syscall.Exec(args[3], args[4:], os.Environ()))
}
