package inside

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// SetHostname changes the host's name in the namespace of a process, which must be another than
// this process's. This process needs CAP_SYS_ADMIN in the user namespace that owns it.
func SetHostname(pid int, name string) error {
	done := make(chan error)
	go func() { // its thread ends with it
		runtime.LockOSThread()
		done <- setHostname(pid, name)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("change the host's name of process %d: %w", pid, err)
	}
	return nil
}

func setHostname(pid int, name string) error {
	if err := join(pid, "uts", unix.CLONE_NEWUTS); err != nil {
		return err
	}
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(name)))
}
