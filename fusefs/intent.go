package fusefs

import (
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// intentOf returns what the system call nr is going to do. ok is false if that needs no level,
// or is unknown.
func intentOf(nr uint64, args [6]uint64) (a syscallIntent, ok bool) {
	switch nr {
	case unix.SYS_OPENAT:
		return opening(args[2])
	case unix.SYS_OPENAT2: // its flags are in the caller's memory
		return syscallIntent{op: "open", need: perm.Read}, true
	case unix.SYS_TRUNCATE:
		return syscallIntent{op: "truncate", need: perm.Write}, true
	case unix.SYS_EXECVE, unix.SYS_EXECVEAT:
		return syscallIntent{op: "execute", need: perm.Read}, true
	case unix.SYS_INOTIFY_ADD_WATCH:
		return syscallIntent{op: "watch", need: perm.Read}, true
	case unix.SYS_CONNECT:
		return syscallIntent{op: "connect", need: perm.Write}, true
	case unix.SYS_BIND, unix.SYS_MKNODAT:
		return syscallIntent{op: "mknod", need: perm.Write, name: true}, true
	case unix.SYS_MKDIRAT:
		return syscallIntent{op: "mkdir", need: perm.Write, name: true}, true
	case unix.SYS_UNLINKAT:
		return syscallIntent{op: "unlink", need: perm.Write, name: true}, true
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return syscallIntent{op: "rename", need: perm.Write, name: true}, true
	case unix.SYS_LINKAT:
		return syscallIntent{op: "link", need: perm.Write, name: true}, true
	case unix.SYS_SYMLINKAT:
		return syscallIntent{op: "symlink", need: perm.Write, name: true}, true
	}
	return oldIntentOf(nr, args)
}

// opening is intentOf for open(2) with flags.
func opening(flags uint64) (syscallIntent, bool) {
	a := syscallIntent{op: "open-read", need: perm.Read, make: flags&unix.O_CREAT != 0}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0 {
		a.op, a.need = "open-write", perm.Write
	}
	return a, flags&unix.O_PATH == 0
}
