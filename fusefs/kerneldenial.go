package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/perm"
)

// The kernel itself refuses what the presented modes do not allow. It does not
// say so, but asks for the attributes once more before (fuse_permission in
// fs/fuse/dir.c), and while it waits for them the caller's system call shows in
// /proc.

// A syscallIntent is what a system call wants to do.
type syscallIntent struct {
	op   string
	need perm.Level
	name bool // it makes or removes a name, for which it needs its directory
	make bool // it does so if the name is not there
}

// auditKernelDenial reports what the caller is about to be refused because of n's
// mode, if that is so. It is called before the attributes of n are told.
func (t *tree) auditKernelDenial(c *fuse.InHeader, n *node) {
	l := n.getLevel()
	if n.isDir() {
		inside, ok := t.rules.Constant(n.getState())
		if !ok {
			return // the mode refuses nothing
		}
		l = inside
	}
	if l == perm.Checked && (n.isDir() || t.created.knows(n.ident())) {
		return // likewise
	}
	if t.report == nil || l >= perm.Write || c.Pid == 0 {
		return
	}
	nr, args, ok := systemCall(c.Pid)
	if !ok {
		return
	}
	a, ok := intentOf(nr, args)
	if a.make && n.isDir() {
		a = syscallIntent{op: "create", need: perm.Write, name: true}
	}
	if !ok || a.name != n.isDir() || a.need <= l {
		return
	}
	t.report(Denial{
		Op: a.op, Path: t.table.path(n, ""), Level: l, Need: a.need,
		PID: c.Pid, UID: c.Uid, Errno: syscall.EACCES, Rules: t.rules,
	})
}

// systemCall returns the system call in which the thread tid waits. It fails
// if that is not for this process to know. A thread that has asked may not be
// asleep yet, least of all where there is one processor; nothing tells when it
// is, so it is looked at again, for half a second at most.
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

// parseSystemCall reads /proc/PID/syscall: a number, six arguments, two
// registers (proc(5)).
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
