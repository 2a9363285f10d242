package proc

import (
	"fmt"
	"os"
	"strings"
)

// Umask returns the umask of this process, all bits on an error. umask(2) would change it for
// a moment, for all threads.
func Umask() uint32 {
	data, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(data), "\nUmask:")
	mask := uint32(0o777)
	_, _ = fmt.Sscanf(after, "%o", &mask)
	return mask
}
