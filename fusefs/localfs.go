package fusefs

import "golang.org/x/sys/unix"

// zfsMagic is the type of ZFS, which is not a part of Linux.
const zfsMagic = 0x2fc12fc1

// localOnly reports whether a file system of this type (statfs(2)) changes by system calls of this host's kernel only, of which fanotify
// tells. Network file systems, and those of a hypervisor or a FUSE server, change without; from Linux 6.8 on they accept
// fanotify's marks all the same. A type that is not known is one of them.
func localOnly(typ int64) bool {
	switch typ {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, zfsMagic,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, unix.REISERFS_SUPER_MAGIC,
		unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return true
	}
	return false
}
