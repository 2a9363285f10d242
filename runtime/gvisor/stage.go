package gvisor

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// stageArg is the first argument of wolffia for stage; runsc's own arguments follow.
const stageArg = "runsc"

// fdProgram is the descriptor of runsc in stage.
const fdProgram = 3

// stage mounts the /proc of its process namespace, which runsc expects and only a process
// in the namespace can mount, and executes runsc. It returns only with an error.
func stage() error {
	if os.Getpid() != 1 {
		return runtime.Errorf(runtime.ErrInvalid, "this is started by wolffia, not by hand")
	}
	// The mount does not propagate: all mounts copied into a namespace of another user
	// namespace are slaves (mount_namespaces(7)).
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for runsc: %w", err)
	}
	err := syscall.Exec("/proc/self/fd/"+strconv.Itoa(fdProgram), append([]string{"runsc"}, os.Args[2:]...), []string{})
	return fmt.Errorf("start runsc: %w", err)
}
