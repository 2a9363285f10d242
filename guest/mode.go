package guest

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SetMode gives a directory in memory, which is PID 1's user's, the mode that it should have:
// "MODE:DIRECTORY". One that has the mode may be another user's. It follows links, as an engine
// does when it mounts.
func SetMode(s string) error {
	octal, name, _ := strings.Cut(s, ":")
	mode, err := strconv.ParseUint(octal, 8, 12)
	if err != nil {
		return fmt.Errorf("mode %q: %w", s, err)
	}
	dir, err := os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	var in unix.Statfs_t
	var st unix.Stat_t
	if err := unix.Fstatfs(int(dir.Fd()), &in); err != nil {
		return fmt.Errorf("statfs %s: %w", name, err)
	}
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	if in.Type != unix.TMPFS_MAGIC || st.Mode&0o7777 == uint32(mode) {
		return nil // another mount covers it, or it is correct
	}
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(int(dir.Fd())), uint32(mode)); err != nil {
		return fmt.Errorf("chmod %s: %w", name, err)
	}
	return nil
}
