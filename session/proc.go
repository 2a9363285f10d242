package session

import (
	"bytes"
	"os"
)

// sameCommandLine reports whether two processes were executed with the same
// arguments, as is a process that was forked and has not executed yet.
func sameCommandLine(a, b int) bool {
	one, err := os.ReadFile("/proc/" + itoa(a) + "/cmdline")
	two, err2 := os.ReadFile("/proc/" + itoa(b) + "/cmdline")
	return err == nil && err2 == nil && len(one) > 0 && bytes.Equal(one, two)
}
