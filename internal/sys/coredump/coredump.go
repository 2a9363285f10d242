// Package coredump keeps crashes of a sandbox from the host's handler of core dumps.
package coredump

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Off keeps the calling process, and all that it starts, from dumping core into a file
// or to a program that kernel.core_pattern names. The kernel runs such a program as root
// whatever RLIMIT_CORE is, unless it is 1 (core(5), "Piping core dumps to a program";
// coredump_pipe in the kernel's fs/coredump.c). Nor has a file room in 1 byte. A socket
// in core_pattern (Linux 6.16) still gets the dump.
//
// A hard limit of 0 that the process may not raise (see [Permit]) stays: then a program
// that core_pattern names still runs.
func Off() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	return nil
}

// Permit raises a hard limit of 0 on core dumps to the 1 that Off needs, for the calling
// process and what it starts. Without CAP_SYS_RESOURCE it does nothing. sudo(8) gives
// root a limit of 0.
func Permit() {
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &now) == nil && now.Max == 0 {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Max: 1})
	}
}
