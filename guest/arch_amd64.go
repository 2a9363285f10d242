package guest

import "golang.org/x/sys/unix"

// The architecture that system call numbers are of, and the bit that marks
// calls of its x32 sibling (seccomp(2), "caveats").
const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000
)
