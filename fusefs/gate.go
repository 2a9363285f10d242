package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/perm"
)

// An op is something that the kernel asks the tree to do to one object or
// name. The zero op is none, and refused.
type op uint8

// The operations. One that concerns two objects has an op for each of them.
const (
	opNone op = iota

	// What is asked of an object that was looked up before.
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

	// What is asked of a name, whether or not it exists.
	opCreate
	opMknod
	opMkdir
	opSymlink
	opLink
	opUnlink
	opRmdir
	opRename

	// What the kernel answers by itself once it has been refused.
	opOpen
	opOpendir
	opFlush
	opAccess

	// What is not offered.
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

	// What has no answer: it is counted only.
	opForget
	opRelease
	opReleasedir

	ops
)

// A row is what the gate says to one operation: its name, and the errno for
// an object or name of each level, 0 if it is allowed. A refusal is the same
// for all levels, and is no denial: nothing would allow it.
type row struct {
	name    string
	errno   [perm.Write + 1]syscall.Errno
	refusal bool
}

// The kinds of row. Hidden means absent for what exists; a name that may not
// be made or removed answers the same whether or not it exists.
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

// gate is the whole policy of the tree: operation x level -> errno. What it refuses
// at perm.Checked the git gate may allow: see checked.go.
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

// check returns the errno for doing o to something of level l, 0 if allowed.
func check(o op, l perm.Level) syscall.Errno {
	if o >= ops || gate[o].name == "" {
		return syscall.ENOSYS // an operation nobody thought about is refused
	}
	if l > perm.Write {
		l = perm.None
	}
	return gate[o].errno[l]
}

// need returns the lowest level that allows o; perm.Write if none does.
func need(o op) perm.Level {
	for l := perm.None; l < perm.Write; l++ {
		if check(o, l) == 0 {
			return l
		}
	}
	return perm.Write
}

// A Denial is one refusal, for an audit log. Path is for people: it is where
// the object was last seen, relative to the root of the tree.
type Denial struct {
	Op    string        // for example "write"
	Path  string        // arbitrary bytes chosen by the sandbox: quote before printing
	Level perm.Level    // what the rules give
	Need  perm.Level    // what the operation asks for; equal to Level if the kind of object is refused
	PID   uint32        // of the caller, in the mount's pid namespace; 0 if it has none there
	UID   uint32        // of the caller, in the mount's user namespace
	Errno syscall.Errno // what the caller was told
	Why   string        // what git on the host would do with it; empty if the level says it all
	Rules Rules         `json:"-"` // by which it was judged
}

// allow asks the gate about n itself.
func (t *tree) allow(o op, c *fuse.InHeader, n *node) syscall.Errno {
	l := n.getLevel()
	e := check(o, l)
	if e != 0 && l == perm.Checked && t.mayChange(o, n) {
		return 0
	}
	if e != 0 {
		t.denied(o, c, n, "", l, e)
	}
	return e
}

// allowName asks the gate about the entry called name in dir, whose level it
// returns. If that is Checked, an entry that is to be removed or renamed is for
// the caller to judge, by what it is.
func (t *tree) allowName(o op, c *fuse.InHeader, dir *node, name string, isDir bool) (perm.Level, syscall.Errno) {
	l := t.rules.Child(dir.getState(), name, isDir)
	e := check(o, l)
	if e != 0 && l == perm.Checked && (o == opUnlink || o == opRmdir || o == opRename || t.mayMake(o, dir, name)) {
		e = 0
	}
	if e != 0 {
		t.denied(o, c, dir, name, l, e)
	}
	return l, e
}

// denied reports one refusal. name is empty if it is about n itself.
func (t *tree) denied(o op, c *fuse.InHeader, n *node, name string, l perm.Level, e syscall.Errno) {
	_ = t.deny(o, c, n, name, l, e, "")
}

// deny is denied, with the reason why. It returns e.
func (t *tree) deny(o op, c *fuse.InHeader, n *node, name string, l perm.Level, e syscall.Errno, why string) syscall.Errno {
	if t.report == nil || gate[o].refusal {
		return e
	}
	t.report(Denial{
		Op: gate[o].name, Path: t.table.path(n, name), Level: l, Need: need(o),
		PID: c.Pid, UID: c.Uid, Errno: e, Rules: t.rules, Why: why,
	})
	return e
}
