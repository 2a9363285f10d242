package backing

import "golang.org/x/sys/unix"

// zfsMagic is the type of ZFS, which is not a part of Linux.
const zfsMagic = 0x2fc12fc1

// LocalOnly reports whether only this host's kernel changes a file system of this type
// (statfs(2)), so that fanotify reports each change. Other hosts, a hypervisor or a FUSE server
// change the others without an event, although the kernel accepts fanotify's marks on those from
// Linux 6.8 on. A type that is not known counts as one of the others.
func LocalOnly(typ int64) bool {
	switch typ {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, zfsMagic,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, unix.REISERFS_SUPER_MAGIC,
		unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return true
	}
	return false
}
