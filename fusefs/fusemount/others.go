package fusemount

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/fusermount"
)

// MountForOthers is Mount with AllowOther in the mount namespace of the host, where a daemon
// can use it. Root mounts by itself; for other users fusermount3(1) does, which needs
// user_allow_other in /etc/fuse.conf and a program that can unmount for a user. The caller
// removes the mount with Unmount: it outlives its server.
func MountForOthers(dir string) (*os.File, error) {
	if os.Geteuid() == 0 {
		return Mount(dir, &MountOptions{AllowOther: true})
	}
	device, err := fusermount.Mount(dir, "allow_other,default_permissions,fsname=wolffia,subtype=wolffia")
	if err != nil {
		return nil, fmt.Errorf("mount a tree on %s: %w", dir, err)
	}
	return device, nil
}

// Unmount removes a mount of MountForOthers, whether or not it is served, without using the
// tree. It is no error if dir is not mounted. With force, root's Unmount first fails the
// requests that wait for the server.
func Unmount(dir string, force bool) error {
	mounted, err := isMounted(dir)
	if err != nil || !mounted {
		return err
	}
	if os.Geteuid() != 0 {
		err := fusermount.Unmount(dir)
		if mounted, merr := isMounted(dir); err == nil || merr == nil && !mounted {
			return nil // also if another process was faster
		}
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	if force {
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// isMounted reports whether dir is a mount point (proc_pid_mountinfo(5)).
func isMounted(dir string) (bool, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	octal := strings.NewReplacer("\\", `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == octal.Replace(dir) {
			return true, nil
		}
	}
	return false, nil
}
