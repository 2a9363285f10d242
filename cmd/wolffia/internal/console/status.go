package console

import (
	"fmt"
	"syscall"

	"wolffia/runtime"
)

// The exit codes that are wolffia's own. Scripts rely on them.
const (
	ExitTimedOut = 124
	ExitFailed   = 125
)

// An ExitStatus is the exit code of a command that ran. It becomes the exit code of
// wolffia, and nothing is printed.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// CodeFor is the exit code for the way in which a command has ended.
func CodeFor(exit runtime.Result) int {
	if exit.TimedOut {
		return ExitTimedOut
	}
	return exit.ExitCode
}

// ExitWith ends us with a command's code.
func ExitWith(code int) error {
	if code == 0 {
		return nil
	}
	return ExitStatus(code)
}

// SignalCode is the exit code for the end by sig, as shells have it.
func SignalCode(sig syscall.Signal) int { return 128 + int(sig) }
