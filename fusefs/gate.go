package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/internal/git/gitguard"
	"wolffia/perm"
)

// An op is an operation of the kernel on one object or name. The zero op is refused.
type op uint8

// The operations, by the opcodes of linux/fuse.h. An operation on two objects has an op for
// each of them.
const (
	opNone    op = 0
	opUnknown op = 100 // not an opcode, as opCopyTo and opLinkFrom

	// On an object that was looked up before.
	opLookup      op = 1
	opGetattr     op = 3
	opSetattr     op = 4
	opReadlink    op = 5
	opRead        op = 15
	opWrite       op = 16
	opFsync       op = 20
	opFallocate   op = 43
	opLseek       op = 46
	opCopyFrom    op = 47
	opCopyTo      op = 101
	opReaddir     op = 28
	opReaddirplus op = 44
	opFsyncdir    op = 30
	opStatfs      op = 17
	opLinkFrom    op = 102

	// On a name, whether or not it exists.
	opCreate  op = 35
	opMknod   op = 8
	opMkdir   op = 9
	opSymlink op = 6
	opLink    op = 13
	opUnlink  op = 10
	opRmdir   op = 11
	opRename  op = 12
	opRename2 op = 45 // only for device.answer, which takes it for opRename

	// Refused with ENOSYS, after which the kernel does them itself, by the presented modes.
	opOpen    op = 14
	opOpendir op = 27
	opFlush   op = 25
	opAccess  op = 34

	// Refused with ENOSYS, after which the kernel does not send it: no answer is given early.
	opInterrupt op = 36

	// Not supported. Extended attributes include ACLs and capabilities, which would get
	// around the gate; a file without a name would have no level until it is linked.
	opTmpfile     op = 51
	opGetxattr    op = 22
	opSetxattr    op = 21
	opListxattr   op = 23
	opRemovexattr op = 24
	opGetlk       op = 31 // the kernel keeps locks itself, as for opSetlk and opSetlkw
	opSetlk       op = 32
	opSetlkw      op = 33
	opIoctl       op = 39
	opStatx       op = 52 // without it the kernel uses opGetattr

	// Without an answer; only counted.
	opForget      op = 2
	opBatchForget op = 42 // only for device.answer, which takes it for opForget
	opRelease     op = 18
	opReleasedir  op = 29
)

// A row of the gate has the errno for each level, 0 if that allows the operation.
type row struct {
	name    string
	errno   errnos
	refusal bool // refused at every level, and so not reported as a denial
}

type errnos [perm.Write + 1]syscall.Errno

// The errnos of a row. An existing hidden object is ENOENT; a name that must not be made or
// removed is EACCES whether or not it exists.
var (
	visible     = errnos{perm.None: syscall.ENOENT}
	reads       = errnos{perm.None: syscall.ENOENT, perm.View: syscall.EACCES}
	writes      = errnos{perm.None: syscall.ENOENT, perm.View: syscall.EACCES, perm.Read: syscall.EACCES}
	changesName = errnos{perm.None: syscall.EACCES, perm.View: syscall.EACCES, perm.Read: syscall.EACCES}
)

func refused(name string, e syscall.Errno) row {
	r := row{name: name, refusal: true}
	for l := range r.errno {
		r.errno[l] = e
	}
	return r
}

// gate is the access policy of the tree: operation x level -> errno.
var gate = [opLinkFrom + 1]row{
	opLookup:      {name: "lookup", errno: visible},
	opGetattr:     {name: "getattr", errno: visible},
	opSetattr:     {name: "setattr", errno: writes},
	opReadlink:    {name: "readlink", errno: reads},
	opRead:        {name: "read", errno: reads},
	opWrite:       {name: "write", errno: writes},
	opFsync:       {name: "fsync", errno: reads},
	opFallocate:   {name: "fallocate", errno: writes},
	opLseek:       {name: "lseek", errno: reads},
	opCopyFrom:    {name: "copy_file_range from", errno: reads},
	opCopyTo:      {name: "copy_file_range to", errno: writes},
	opReaddir:     {name: "readdir", errno: visible},
	opReaddirplus: {name: "readdirplus", errno: visible},
	opFsyncdir:    {name: "fsyncdir", errno: visible},
	opStatfs:      {name: "statfs", errno: visible},
	opLinkFrom:    {name: "link from", errno: writes},

	opCreate:  {name: "create", errno: changesName},
	opMknod:   {name: "mknod", errno: changesName},
	opMkdir:   {name: "mkdir", errno: changesName},
	opSymlink: {name: "symlink", errno: changesName},
	opLink:    {name: "link", errno: changesName},
	opUnlink:  {name: "unlink", errno: changesName},
	opRmdir:   {name: "rmdir", errno: changesName},
	opRename:  {name: "rename", errno: changesName},

	opOpen:    refused("open", syscall.ENOSYS),
	opOpendir: refused("opendir", syscall.ENOSYS),
	opFlush:   refused("flush", syscall.ENOSYS),
	opAccess:  refused("access", syscall.ENOSYS),

	opInterrupt: refused("interrupt", syscall.ENOSYS),

	opTmpfile:     refused("tmpfile", syscall.EOPNOTSUPP),
	opGetxattr:    refused("getxattr", syscall.ENOSYS),
	opSetxattr:    refused("setxattr", syscall.ENOSYS),
	opListxattr:   refused("listxattr", syscall.ENOSYS),
	opRemovexattr: refused("removexattr", syscall.ENOSYS),
	opGetlk:       refused("getlk", syscall.ENOSYS),
	opSetlk:       refused("setlk", syscall.ENOSYS),
	opSetlkw:      refused("setlkw", syscall.ENOSYS),
	opIoctl:       refused("ioctl", syscall.ENOTTY),
	opStatx:       refused("statx", syscall.ENOSYS),

	opForget:     {name: "forget"},
	opRelease:    {name: "release"},
	opReleasedir: {name: "releasedir"},
}

// check returns the errno for o on something of level l, 0 if the gate allows it. An
// operation without a row is refused.
func check(o op, l perm.Level) syscall.Errno {
	if int(o) >= len(gate) || gate[o].name == "" {
		return syscall.ENOSYS
	}
	if l > perm.Write {
		l = perm.None
	}
	return gate[o].errno[l]
}

// need returns the lowest level that allows o, perm.Write if none does.
func need(o op) perm.Level {
	for l := perm.None; l < perm.Write; l++ {
		if check(o, l) == 0 {
			return l
		}
	}
	return perm.Write
}

// A Denial is one refusal, for an audit log.
type Denial struct {
	Op    string        // for example "write"
	Path  string        // last known, relative to the root; arbitrary bytes chosen by the sandbox: quote before printing
	Level perm.Level    // what the rules give
	Need  perm.Level    // what the operation needs; equal to Level if the kind of object is refused
	PID   uint32        // of the caller, in the mount's pid namespace; 0 if it has none there
	UID   uint32        // of the caller, in the mount's user namespace
	Errno syscall.Errno // returned to the caller
	Why   string        // what git on the host would do with it; "": the level explains the refusal
	Rules Rules         `json:"-"` // the rules that decided
}

// A gatekeeper asks the gate about nodes and names, and reports what it denies.
type gatekeeper struct {
	*names
	report func(Denial) // Options.Denied
}

// allow returns the gate's errno for o on n, 0 if it allows that, and reports a denial.
func (g *gatekeeper) allow(o op, c *fuse.InHeader, n *node) syscall.Errno {
	l := n.getLevel()
	e := check(o, l)
	if e == 0 {
		return 0
	}
	return g.deny(o, c, n, "", l, e, "")
}

// allowed returns the node called id if the gate allows o on it, and reports a denial.
func (g *gatekeeper) allowed(o op, c *fuse.InHeader, id uint64) (*node, syscall.Errno) {
	n := g.table.get(id)
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, g.allow(o, c, n)
}

// allowName returns the gate's errno for o on the name e, 0 if it allows that, and reports a
// denial.
func (g *gatekeeper) allowName(o op, c *fuse.InHeader, e *entry, isDir bool) syscall.Errno {
	l := g.levels.of(e, isDir)
	errno := check(o, l)
	if errno == 0 {
		return 0
	}
	why := ""
	if g.git != nil && gitguard.Spelled(e.name) && !e.dir.private() {
		why = spellsGit
	}
	return g.deny(o, c, e.dir, e.name, l, errno, why)
}

// deny reports one refusal and returns e. name is empty if n itself was refused, else it
// is an entry of n. why is Denial.Why.
func (g *gatekeeper) deny(o op, c *fuse.InHeader, n *node, name string, l perm.Level, e syscall.Errno, why string) syscall.Errno {
	if g.report != nil && !gate[o].refusal {
		g.report(Denial{
			Op: gate[o].name, Path: g.table.path(n, name), Level: l, Need: need(o),
			PID: c.Pid, UID: c.Uid, Errno: e, Rules: g.levels.rules, Why: why,
		})
	}
	return e
}
