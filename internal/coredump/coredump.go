// Package coredump keeps crashes from reaching the host's handler of core dumps.
package coredump

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Off keeps the calling process, and all that it starts, from dumping core: into a
// file, and to a program that kernel.core_pattern names, which the kernel runs as root
// whatever RLIMIT_CORE is, unless that is 1 (core(5), "Piping core dumps to a
// program"; coredump_pipe in the kernel's fs/coredump.c). A limit of 1 byte is no room
// for a file either. A socket in core_pattern (Linux 6.16) is not kept from it.
//
// A hard limit of 0 is left where the process may not raise it (see [Permit]): then a
// program that core_pattern names still runs.
func Off() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	return nil
}

// Permit raises a hard limit of 0 on core dumps to the 1 that Off needs, for the
// calling process and what it starts, if it may: root may, with CAP_SYS_RESOURCE. With
// sudo(8) that is the limit which root has.
func Permit() {
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &now) == nil && now.Max == 0 {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Max: 1})
	}
}
