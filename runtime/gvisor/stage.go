package gvisor

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// stageArg is the first argument of wolffia when it is to become runsc, in the
// namespaces that attr says; runsc's own arguments follow.
const stageArg = "runsc"

// fdProgram is where the stage finds runsc.
const fdProgram = 3

// stage gives runsc a /proc of its process namespace, which only a process in
// it can mount and runsc expects to be there already, and becomes runsc. It
// returns if that fails.
func stage() error {
	if os.Getpid() != 1 {
		return runtime.Errorf(runtime.ErrInvalid, "this is started by wolffia, not by hand")
	}
	// All mounts of a namespace that belongs to another user namespace than the
	// one it was copied from are slaves already (mount_namespaces(7)).
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for runsc: %w", err)
	}
	err := syscall.Exec("/proc/self/fd/"+strconv.Itoa(fdProgram), append([]string{"runsc"}, os.Args[2:]...), []string{})
	return fmt.Errorf("start runsc: %w", err)
}
