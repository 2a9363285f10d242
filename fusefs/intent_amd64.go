package fusefs

import (
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// oldIntentOf is intentOf for the calls that newer architectures lack.
func oldIntentOf(nr uint64, args [6]uint64) (a syscallIntent, ok bool) {
	switch nr {
	case unix.SYS_OPEN:
		return opening(args[1])
	case unix.SYS_CREAT:
		return opening(unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC)
	case unix.SYS_MKNOD:
		return syscallIntent{op: "mknod", need: perm.Write, name: true}, true
	case unix.SYS_MKDIR:
		return syscallIntent{op: "mkdir", need: perm.Write, name: true}, true
	case unix.SYS_UNLINK, unix.SYS_RMDIR:
		return syscallIntent{op: "unlink", need: perm.Write, name: true}, true
	case unix.SYS_RENAME:
		return syscallIntent{op: "rename", need: perm.Write, name: true}, true
	case unix.SYS_LINK:
		return syscallIntent{op: "link", need: perm.Write, name: true}, true
	case unix.SYS_SYMLINK:
		return syscallIntent{op: "symlink", need: perm.Write, name: true}, true
	}
	return syscallIntent{}, false
}
