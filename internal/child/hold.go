package child

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// HoldArg is the first argument of a wolffia that waits at a gate and then executes
// another program: see [Held].
const HoldArg = "hold"

// Held returns a command, for StartPiped, whose process executes c when it reads a byte
// from gate, and ends if gate ends first. So the caller can prepare, for a process that
// exists, what must be there before the program runs, such as a control group. Without
// a gate Held returns c. The caller's own program must be wolffia. The caller closes
// gate.
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

// Hold is the main function of a held process; args are those of Held. It returns only
// if it fails.
func Hold(args []string) error {
	if len(args) < 5 || args[1] != HoldArg {
		return errors.New("hold is for wolffia itself: it is not a command")
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
			return errors.New("the start of this sandbox was given up")
		}
		break
	}
	return fmt.Errorf("start %s: %w", args[3], syscall.Exec(args[3], args[4:], os.Environ()))
}
