package fusemount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/fusermount"
)

// MountForOthers is Mount with AllowOther in the mount namespace of the host, where a daemon can
// use it. Root mounts without a helper. For other users fusermount3(1) mounts, which needs
// user_allow_other in /etc/fuse.conf and a program that can unmount for a user. The caller removes
// the mount with Unmount: it outlives its server.
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

// isMounted reports whether dir is a mount point, by whatever name. It asks nothing of the file
// system that is mounted there.
func isMounted(dir string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, &fs.PathError{Op: "statx", Path: dir, Err: err}
	case st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return false, fmt.Errorf("%s: this kernel does not tell whether it is a mount point, which needs Linux 5.8", dir)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
