package gate

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// An Intent is what a system call is going to do.
type Intent struct {
	Op   string
	Need perm.Level
	Name bool // it makes or removes a name, and so needs the directory
	Make bool // it makes a name if that does not exist
}

// IntentOf returns what the system call is going to do in which the thread tid waits. ok is false
// if that needs no level, is unknown, or cannot be read.
func IntentOf(tid uint32) (a Intent, ok bool) {
	nr, args, ok := systemCall(tid)
	if !ok {
		return Intent{}, false
	}
	return intentOf(nr, args)
}

// intentOf returns what the system call nr is going to do. ok is false if that needs no level,
// or is unknown.
func intentOf(nr uint64, args [6]uint64) (a Intent, ok bool) {
	switch nr {
	case unix.SYS_OPENAT:
		return opening(args[2])
	case unix.SYS_OPENAT2: // its flags are in the caller's memory
		return Intent{Op: "open", Need: perm.Read}, true
	case unix.SYS_TRUNCATE:
		return Intent{Op: "truncate", Need: perm.Write}, true
	case unix.SYS_EXECVE, unix.SYS_EXECVEAT:
		return Intent{Op: "execute", Need: perm.Read}, true
	case unix.SYS_INOTIFY_ADD_WATCH:
		return Intent{Op: "watch", Need: perm.Read}, true
	case unix.SYS_CONNECT:
		return Intent{Op: "connect", Need: perm.Write}, true
	case unix.SYS_BIND, unix.SYS_MKNODAT:
		return Intent{Op: "mknod", Need: perm.Write, Name: true}, true
	case unix.SYS_MKDIRAT:
		return Intent{Op: "mkdir", Need: perm.Write, Name: true}, true
	case unix.SYS_UNLINKAT:
		return Intent{Op: "unlink", Need: perm.Write, Name: true}, true
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return Intent{Op: "rename", Need: perm.Write, Name: true}, true
	case unix.SYS_LINKAT:
		return Intent{Op: "link", Need: perm.Write, Name: true}, true
	case unix.SYS_SYMLINKAT:
		return Intent{Op: "symlink", Need: perm.Write, Name: true}, true
	}
	return oldIntentOf(nr, args)
}

// opening is intentOf for open(2) with flags.
func opening(flags uint64) (Intent, bool) {
	a := Intent{Op: "open-read", Need: perm.Read, Make: flags&unix.O_CREAT != 0}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0 {
		a.Op, a.Need = "open-write", perm.Write
	}
	return a, flags&unix.O_PATH == 0
}

// systemCall returns the system call in which the thread tid waits; ok is false if this process
// may not read it. The thread may still run for a short time after it has sent its request, and no
// event reports when it sleeps: so systemCall retries, for half a second at most.
func systemCall(tid uint32) (nr uint64, args [6]uint64, ok bool) {
	path := fmt.Sprintf("/proc/%d/syscall", tid)
	for pause := 20 * time.Microsecond; ; pause *= 2 {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, args, false
		}
		if !bytes.HasPrefix(data, []byte("running")) || pause > 250*time.Millisecond {
			return parseSystemCall(data)
		}
		time.Sleep(pause)
	}
}

// parseSystemCall parses /proc/PID/syscall: a number, six arguments, two registers (proc(5)).
func parseSystemCall(data []byte) (nr uint64, args [6]uint64, ok bool) {
	fields := bytes.Fields(data)
	if len(fields) != 9 {
		return 0, args, false
	}
	nr, err := strconv.ParseUint(string(fields[0]), 10, 32)
	for i := range args {
		if err == nil {
			args[i], err = strconv.ParseUint(string(fields[i+1]), 0, 64)
		}
	}
	return nr, args, err == nil
}
