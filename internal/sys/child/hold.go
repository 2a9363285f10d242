package child

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// HoldArg is the first argument of wolffia for [Hold].
const HoldArg = "hold"

// WithBarrier returns the command, for StartPiped, of a process that executes c once a
// byte can be read from barrier, and ends at its end of file. So a control group can be
// set up for a process before its program runs. With a nil barrier it returns c. The
// caller's program must be wolffia, and the caller closes barrier.
func WithBarrier(c *Command, barrier *os.File) *Command {
	if barrier == nil {
		return c
	}
	held := *c
	held.Path = "/proc/self/exe"
	held.Args = append([]string{"wolffia", HoldArg, strconv.Itoa(3 + len(c.Files)), c.Path}, c.Args...)
	held.Files = append(c.Files[:len(c.Files):len(c.Files)], barrier)
	return &held
}

// Hold is the main of a process that WithBarrier has described. It returns only with an
// error.
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
			return errors.New("the start of the sandbox was cancelled")
		}
		break
	}
	return fmt.Errorf("start %s: %w", args[3], Exec(args[3], args[4:], os.Environ()))
}

// Exec executes a program in place of the calling one, which the kernel is to end with the thread
// of its parent that has started it (Pdeathsig). It returns only with an error. That setting is a
// thread's, and execve(2) keeps that of the calling thread: a goroutine may be in another one than
// the process began with.
func Exec(path string, args, env []string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return syscall.Exec(path, args, env)
}
