package fusermount

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckDevice returns why this process cannot use /dev/fuse, nil if it can. For root, whose
// sandboxes run as another user, the device must be open to all.
func CheckDevice() error {
	const device = "/dev/fuse"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		return fmt.Errorf("look at %s: %w", device, err)
	case st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(10, 229): // Documentation/admin-guide/devices.txt
		return fmt.Errorf("%s is not the device of FUSE", device)
	case unix.Geteuid() == 0 && st.Mode&0o006 != 0o006:
		return fmt.Errorf("%s is root's: the user that root runs sandboxes as cannot open it", device)
	}
	return nil
}
