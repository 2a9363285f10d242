package guest

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownCapabilities are those that PID 1 alone has: to look at processes of other users, and to mark
// them. They are launch.OwnCapabilities.
const ownCapabilities = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_RESOURCE

// LimitRoot leaves root inside, as which PID 1 runs, and all that it starts the capabilities of a
// set with a bit for each, and no group of the host's. PID 1 has a few more, which are in no
// bounding set. bubblewrap has given it no others, but a
// process that enters a user namespace has all in its bounding set (user_namespaces(7)).
func LimitRoot(capabilities uint64) error {
	for c := uintptr(0); c < 64; c++ {
		if capabilities&(1<<c) != 0 {
			continue
		}
		if err := allThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		} else if err != nil {
			return fmt.Errorf("prctl PR_CAPBSET_DROP %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{}
	for i := range data {
		word := uint32((capabilities | ownCapabilities) >> (32 * i))
		data[i] = unix.CapUserData{Effective: word, Permitted: word}
	}
	if err := allThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	return nil
}

// allThreads makes a system call in all threads of this process.
func allThreads(number, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}
