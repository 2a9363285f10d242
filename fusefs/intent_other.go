//go:build !amd64

package fusefs

// intentOf knows no system call on this architecture: what the kernel itself refuses is not
// reported.
func intentOf(uint64, [6]uint64) (syscallIntent, bool) { return syscallIntent{}, false }
