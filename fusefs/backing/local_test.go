package backing

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Only on file systems that no other host changes are the host's changes taken to be noticed.
func TestLocalOnly(t *testing.T) {
	for typ, want := range map[int64]bool{
		unix.EXT4_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true,
		unix.NFS_SUPER_MAGIC: false, unix.SMB2_SUPER_MAGIC: false, unix.V9FS_MAGIC: false, unix.FUSE_SUPER_MAGIC: false,
		unix.CEPH_SUPER_MAGIC: false, 0: false,
	} {
		if got := LocalOnly(typ); got != want {
			t.Errorf("type %#x: %v, want %v", typ, got, want)
		}
	}
}
