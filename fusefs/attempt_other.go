//go:build !amd64

package fusefs

// attemptOf knows no system call here: what the kernel itself refuses is not
// reported.
func attemptOf(uint64, [6]uint64) (attempt, bool) { return attempt{}, false }
