// Package fusemount mounts FUSE file systems for package fusefs to serve, in this process or
// another one. It is a package of its own since a program that only mounts would start more slowly
// with what serving needs.
package fusemount

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MountOptions are options of Mount. The zero value is the default.
type MountOptions struct {
	// AllowOther lets other users than the caller of Mount use the mount, as the modes
	// allow: those of the user namespace that owns the mount, and of those below it. A container
	// daemon that runs as root needs it to enter a user's mount, and so do the users of a sandbox
	// with root inside.
	AllowOther bool
}

// Mount mounts a tree on the directory dir and returns the descriptor that answers for it, for
// fusefs.Serve in this or another process. The caller closes it. Until the tree is served, use of
// dir blocks; when all copies of the descriptor are closed, it fails with ENOTCONN. nil
// options are the defaults.
//
// The caller needs CAP_SYS_ADMIN in the user namespace that owns its mount namespace, and no
// helper program. The kernel resolves dir like any path, links included.
func Mount(dir string, opts *MountOptions) (*os.File, error) {
	if opts == nil {
		opts = &MountOptions{}
	}
	// go-fuse would open it without O_CLOEXEC: a process that inherits the descriptor can
	// answer for the tree.
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	data := mountData(fd, os.Getuid(), os.Getgid(), opts)
	if err := unix.Mount("wolffia", dir, "fuse.wolffia", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mount a tree on %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), "/dev/fuse"), nil
}

// RootMode is the mode of the root until the kernel has asked the server for it. The kernel drops
// that answer if it receives a notification meanwhile that the root has changed, and without a
// mode it would then refuse to enter (fuse_permission in fs/fuse/dir.c).
const RootMode = unix.S_IFDIR | 0o755

// mountData returns the options for mount(2). With default_permissions the kernel checks the
// presented modes.
func mountData(fd, uid, gid int, opts *MountOptions) string {
	data := []string{
		fmt.Sprintf("fd=%d", fd),
		fmt.Sprintf("rootmode=%o", RootMode),
		fmt.Sprintf("user_id=%d", uid),
		fmt.Sprintf("group_id=%d", gid),
		"default_permissions",
	}
	if opts.AllowOther {
		data = append(data, "allow_other")
	}
	return strings.Join(data, ",")
}
