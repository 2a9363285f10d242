package gate

import (
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// oldIntentOf is intentOf for the calls that newer architectures lack.
func oldIntentOf(nr uint64, args [6]uint64) (a Intent, ok bool) {
	switch nr {
	case unix.SYS_OPEN:
		return opening(args[1])
	case unix.SYS_CREAT:
		return opening(unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC)
	case unix.SYS_MKNOD:
		return Intent{Op: "mknod", Need: perm.Write, Name: true}, true
	case unix.SYS_MKDIR:
		return Intent{Op: "mkdir", Need: perm.Write, Name: true}, true
	case unix.SYS_UNLINK, unix.SYS_RMDIR:
		return Intent{Op: "unlink", Need: perm.Write, Name: true}, true
	case unix.SYS_RENAME:
		return Intent{Op: "rename", Need: perm.Write, Name: true}, true
	case unix.SYS_LINK:
		return Intent{Op: "link", Need: perm.Write, Name: true}, true
	case unix.SYS_SYMLINK:
		return Intent{Op: "symlink", Need: perm.Write, Name: true}, true
	}
	return Intent{}, false
}
