package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/perm"
)

// An op is an operation of the kernel on one object or name. The zero op is refused.
type op uint8

// The operations. An operation on two objects has an op for each of them.
const (
	opNone op = iota

	// On an object that was looked up before.
	opLookup
	opGetattr
	opSetattr
	opReadlink
	opRead
	opWrite
	opFsync
	opFallocate
	opLseek
	opCopyFrom
	opCopyTo
	opReaddir
	opReaddirplus
	opFsyncdir
	opStatfs
	opLinkFrom

	// On a name, whether or not it exists.
	opCreate
	opMknod
	opMkdir
	opSymlink
	opLink
	opUnlink
	opRmdir
	opRename

	// Refused with ENOSYS, after which the kernel does them itself.
	opOpen
	opOpendir
	opFlush
	opAccess

	// Not supported.
	opTmpfile
	opGetxattr
	opSetxattr
	opListxattr
	opRemovexattr
	opGetlk
	opSetlk
	opSetlkw
	opIoctl
	opStatx

	// Without an answer; only counted.
	opForget
	opRelease
	opReleasedir

	ops
)

// A row of the gate has the errno for each level, 0 if that allows the operation.
type row struct {
	name    string
	errno   [perm.Write + 1]syscall.Errno
	refusal bool // refused at every level, and so not reported as a denial
}

// The kinds of row. An existing hidden object is ENOENT; a name that must not be made or
// removed is EACCES whether or not it exists.
func visible(name string) row { return row{name: name, errno: levels(syscall.ENOENT, 0, 0, 0, 0)} }

func reads(name string) row {
	return row{name: name, errno: levels(syscall.ENOENT, syscall.EACCES, 0, 0, 0)}
}

func writes(name string) row {
	return row{name: name, errno: levels(syscall.ENOENT, syscall.EACCES, syscall.EACCES, syscall.EACCES, 0)}
}

func changesName(name string) row {
	return row{name: name, errno: levels(syscall.EACCES, syscall.EACCES, syscall.EACCES, syscall.EACCES, 0)}
}

func refused(name string, e syscall.Errno) row {
	return row{name: name, errno: levels(e, e, e, e, e), refusal: true}
}

func silent(name string) row { return row{name: name} }

func levels(none, view, read, checked, write syscall.Errno) [perm.Write + 1]syscall.Errno {
	return [...]syscall.Errno{perm.None: none, perm.View: view, perm.Read: read, perm.Checked: checked, perm.Write: write}
}

// gate is the access policy of the tree: operation x level -> errno. What it refuses at
// perm.Checked, gitfile.go may allow.
var gate = [ops]row{
	opLookup:      visible("lookup"),
	opGetattr:     visible("getattr"),
	opSetattr:     writes("setattr"),
	opReadlink:    reads("readlink"),
	opRead:        reads("read"),
	opWrite:       writes("write"),
	opFsync:       reads("fsync"),
	opFallocate:   writes("fallocate"),
	opLseek:       reads("lseek"),
	opCopyFrom:    reads("copy_file_range from"),
	opCopyTo:      writes("copy_file_range to"),
	opReaddir:     visible("readdir"),
	opReaddirplus: visible("readdirplus"),
	opFsyncdir:    visible("fsyncdir"),
	opStatfs:      visible("statfs"),
	opLinkFrom:    writes("link from"),

	opCreate:  changesName("create"),
	opMknod:   changesName("mknod"),
	opMkdir:   changesName("mkdir"),
	opSymlink: changesName("symlink"),
	opLink:    changesName("link"),
	opUnlink:  changesName("unlink"),
	opRmdir:   changesName("rmdir"),
	opRename:  changesName("rename"),

	opOpen:    refused("open", syscall.ENOSYS),
	opOpendir: refused("opendir", syscall.ENOSYS),
	opFlush:   refused("flush", syscall.ENOSYS),
	opAccess:  refused("access", syscall.ENOSYS),

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

	opForget:     silent("forget"),
	opRelease:    silent("release"),
	opReleasedir: silent("releasedir"),
}

// check returns the errno for o on something of level l, 0 if the gate allows it. An
// operation without a row is refused.
func check(o op, l perm.Level) syscall.Errno {
	if o >= ops || gate[o].name == "" {
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
	Why   string        // what git on the host would do with it; empty if the level explains the refusal
	Rules Rules         `json:"-"` // the rules that decided
}

// allow returns the gate's errno for o on n, 0 if it allows that, and reports a denial.
func (t *tree) allow(o op, c *fuse.InHeader, n *node) syscall.Errno {
	l := n.getLevel()
	e := check(o, l)
	if e == 0 || l == perm.Checked && t.mayChange(o, n) {
		return 0
	}
	return t.deny(o, c, n, "", l, e, "")
}

// allowed returns the node called id if the gate allows o on it, and reports a denial.
func (t *tree) allowed(o op, c *fuse.InHeader, id uint64) (*node, syscall.Errno) {
	n := t.table.get(id)
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, t.allow(o, c, n)
}

// allowName returns the gate's errno for o on the name e, 0 if it allows that, and reports a
// denial. At perm.Checked it allows opUnlink, opRmdir and opRename: the caller decides
// about those by the object.
func (t *tree) allowName(o op, c *fuse.InHeader, e *entry, isDir bool) syscall.Errno {
	l := t.level(e, isDir)
	errno := check(o, l)
	if errno == 0 || l == perm.Checked && (o == opUnlink || o == opRmdir || o == opRename || t.mayMake(o, e)) {
		return 0
	}
	return t.deny(o, c, e.dir, e.name, l, errno, "")
}

// deny reports one refusal and returns e. name is empty if n itself was refused, else it
// is an entry of n. why is Denial.Why.
func (t *tree) deny(o op, c *fuse.InHeader, n *node, name string, l perm.Level, e syscall.Errno, why string) syscall.Errno {
	if t.report != nil && !gate[o].refusal {
		t.report(Denial{
			Op: gate[o].name, Path: t.table.path(n, name), Level: l, Need: need(o),
			PID: c.Pid, UID: c.Uid, Errno: e, Rules: t.rules, Why: why,
		})
	}
	return e
}
