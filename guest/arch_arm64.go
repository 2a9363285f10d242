package guest

import "golang.org/x/sys/unix"

// The architecture that system call numbers are of; there is no sibling like
// x32 whose calls a bit would mark.
const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0x40000000
)
