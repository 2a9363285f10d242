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

// The kernel itself refuses what the presented modes do not allow, and does not report that.
// But before, it asks for the attributes once more (fuse_permission in fs/fuse/dir.c), and
// while it waits for them /proc shows the caller's system call.

// A syscallIntent is what a system call is going to do.
type syscallIntent struct {
	op   string
	need perm.Level
	name bool // it makes or removes a name, and so needs the directory
	make bool // it makes a name if that does not exist
}

// auditKernelDenial reports that the kernel is about to refuse the caller's system call because
// of n's mode, if it is. It is called before a reply with the attributes of n.
func (g *gatekeeper) auditKernelDenial(c *fuse.InHeader, n *node) {
	l := n.getLevel()
	if n.isDir() {
		inside, ok := g.levels.constant(n.getState())
		if !ok {
			return // the mode allows everything
		}
		l = inside
	}
	if g.report == nil || l >= perm.Write || c.Pid == 0 {
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
	g.report(Denial{
		Op: a.op, Path: g.table.path(n, ""), Level: l, Need: a.need,
		PID: c.Pid, UID: c.Uid, Errno: syscall.EACCES, Rules: g.levels.rules,
	})
}

// systemCall returns the system call in which the thread tid waits; ok is false if this
// process may not read it. The thread may still be running for a moment after it has sent its
// request, and no event says when it sleeps: so systemCall looks again, for half a second at
// most.
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
