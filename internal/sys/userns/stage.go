// Package userns starts a program in a user namespace of its own without a copy of the caller's
// memory.
//
// Go's runtime starts a program by vfork(2), unless it is to be in a new user namespace: then it
// forks, so that it can write the namespace's ids while the child waits. The kernel copies the
// tables of all pages that the caller has for that, a millisecond for some ten megabytes, and
// every page that the caller writes to afterwards costs it a fault. Here the child executes a
// stage, some hundred bytes of machine code, which makes the namespaces, writes the ids and
// executes the program.
//
// A namespace has the caller's id only (Args), or the caller's subordinate ids too (IDs).
package userns

import (
	"fmt"
	"os"
	"syscall"

	"wolffia/internal/sys/tinyprogram"
)

// FD is the number of the descriptor that the child has the stage at when it is executed. The
// stage puts a copy of descriptor 0 there.
const FD = 1

// Path is the path of the stage in the child.
const Path = "/proc/self/fd/1"

// stageAddress returns where the code of the stage is, in stage_*.s.
func stageAddress() uintptr

// Stage returns the stage. The caller closes it.
func Stage() (*os.File, error) {
	return tinyprogram.File("wolffia-userns", tinyprogram.Of(stageAddress()))
}

// Args returns the arguments of a stage that executes path, with args, as user and group 0 of a
// new user namespace, in a new mount namespace. uid and gid are the caller's own: a process may
// map no others itself (user_namespaces(7)). If it fails, it writes a line to descriptor 6
// (boot.FDReady) that Failed reads, and ends.
func Args(uid, gid int, path string, args []string) []string {
	return append([]string{
		"wolffia-userns",
		"/proc/self/setgroups", "deny", // before the groups
		"/proc/self/uid_map", fmt.Sprintf("0 %d 1", uid),
		"/proc/self/gid_map", fmt.Sprintf("0 %d 1", gid),
		path,
	}, args...)
}

// A Failure is why a stage has failed.
type Failure struct {
	Errno syscall.Errno
	Exec  bool // it could not execute the program; else it could not make the namespaces
}

// Failed returns what the line of a stage says; ok is false if the line is not a stage's.
func Failed(line []byte) (f Failure, ok bool) {
	if len(line) != 4 || line[0] != '!' {
		return Failure{}, false
	}
	return Failure{Errno: syscall.Errno(line[2]-'a')<<4 | syscall.Errno(line[3]-'a'), Exec: line[1] == 'x'}, true
}
