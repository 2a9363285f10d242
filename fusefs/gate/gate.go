// Package gate says which level of a name each operation of the kernel needs. It also has the
// levels for the system calls that the kernel refuses by itself.
package gate

import (
	"syscall"

	"wolffia/perm"
)

// An Op is an operation of the kernel on one object or name. The zero Op is refused.
type Op uint8

// The operations, by the opcodes of linux/fuse.h. An operation on two objects has an Op for
// each of them.
const (
	OpNone    Op = 0
	OpUnknown Op = 100 // not an opcode, as OpCopyTo and OpLinkFrom

	// On an object that was looked up before.
	OpLookup      Op = 1
	OpGetattr     Op = 3
	OpSetattr     Op = 4
	OpReadlink    Op = 5
	OpRead        Op = 15
	OpWrite       Op = 16
	OpFsync       Op = 20
	OpFallocate   Op = 43
	OpLseek       Op = 46
	OpCopyFrom    Op = 47
	OpCopyTo      Op = 101
	OpReaddir     Op = 28
	OpReaddirplus Op = 44
	OpFsyncdir    Op = 30
	OpStatfs      Op = 17
	OpLinkFrom    Op = 102

	// On a name, whether or not it exists.
	OpCreate  Op = 35
	OpMknod   Op = 8
	OpMkdir   Op = 9
	OpSymlink Op = 6
	OpLink    Op = 13
	OpUnlink  Op = 10
	OpRmdir   Op = 11
	OpRename  Op = 12
	OpRename2 Op = 45 // only for the answering loop, which takes it for OpRename

	// Refused with ENOSYS, after which the kernel does them itself, by the presented modes.
	OpOpen    Op = 14
	OpOpendir Op = 27
	OpFlush   Op = 25
	OpAccess  Op = 34

	// Refused with ENOSYS, after which the kernel does not send it: no answer is given early.
	OpInterrupt Op = 36

	// Not supported. Extended attributes include ACLs and capabilities, which would get
	// around the gate; a file without a name would have no level until it is linked.
	OpTmpfile     Op = 51
	OpGetxattr    Op = 22
	OpSetxattr    Op = 21
	OpListxattr   Op = 23
	OpRemovexattr Op = 24
	OpGetlk       Op = 31 // the kernel keeps locks itself, as for OpSetlk and OpSetlkw
	OpSetlk       Op = 32
	OpSetlkw      Op = 33
	OpIoctl       Op = 39
	OpStatx       Op = 52 // without it the kernel uses OpGetattr

	// Without an answer; only counted.
	OpForget      Op = 2
	OpBatchForget Op = 42 // only for the answering loop, which takes it for OpForget
	OpRelease     Op = 18
	OpReleasedir  Op = 29
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

// Ops is the number of operations, for arrays by them.
const Ops = OpLinkFrom + 1

// table is the policy: operation x level -> errno.
var table = [Ops]row{
	OpLookup:      {name: "lookup", errno: visible},
	OpGetattr:     {name: "getattr", errno: visible},
	OpSetattr:     {name: "setattr", errno: writes},
	OpReadlink:    {name: "readlink", errno: reads},
	OpRead:        {name: "read", errno: reads},
	OpWrite:       {name: "write", errno: writes},
	OpFsync:       {name: "fsync", errno: reads},
	OpFallocate:   {name: "fallocate", errno: writes},
	OpLseek:       {name: "lseek", errno: reads},
	OpCopyFrom:    {name: "copy_file_range from", errno: reads},
	OpCopyTo:      {name: "copy_file_range to", errno: writes},
	OpReaddir:     {name: "readdir", errno: visible},
	OpReaddirplus: {name: "readdirplus", errno: visible},
	OpFsyncdir:    {name: "fsyncdir", errno: visible},
	OpStatfs:      {name: "statfs", errno: visible},
	OpLinkFrom:    {name: "link from", errno: writes},

	OpCreate:  {name: "create", errno: changesName},
	OpMknod:   {name: "mknod", errno: changesName},
	OpMkdir:   {name: "mkdir", errno: changesName},
	OpSymlink: {name: "symlink", errno: changesName},
	OpLink:    {name: "link", errno: changesName},
	OpUnlink:  {name: "unlink", errno: changesName},
	OpRmdir:   {name: "rmdir", errno: changesName},
	OpRename:  {name: "rename", errno: changesName},

	OpOpen:    refused("open", syscall.ENOSYS),
	OpOpendir: refused("opendir", syscall.ENOSYS),
	OpFlush:   refused("flush", syscall.ENOSYS),
	OpAccess:  refused("access", syscall.ENOSYS),

	OpInterrupt: refused("interrupt", syscall.ENOSYS),

	OpTmpfile:     refused("tmpfile", syscall.EOPNOTSUPP),
	OpGetxattr:    refused("getxattr", syscall.ENOSYS),
	OpSetxattr:    refused("setxattr", syscall.ENOSYS),
	OpListxattr:   refused("listxattr", syscall.ENOSYS),
	OpRemovexattr: refused("removexattr", syscall.ENOSYS),
	OpGetlk:       refused("getlk", syscall.ENOSYS),
	OpSetlk:       refused("setlk", syscall.ENOSYS),
	OpSetlkw:      refused("setlkw", syscall.ENOSYS),
	OpIoctl:       refused("ioctl", syscall.ENOTTY),
	OpStatx:       refused("statx", syscall.ENOSYS),

	OpForget:     {name: "forget"},
	OpRelease:    {name: "release"},
	OpReleasedir: {name: "releasedir"},
}

// Check returns the errno for o on something of level l, 0 if the gate allows it. An
// operation without a row is refused.
func Check(o Op, l perm.Level) syscall.Errno {
	if int(o) >= len(table) || table[o].name == "" {
		return syscall.ENOSYS
	}
	if l > perm.Write {
		l = perm.None
	}
	return table[o].errno[l]
}

// Need returns the lowest level that allows o, perm.Write if none does.
func Need(o Op) perm.Level {
	for l := perm.None; l < perm.Write; l++ {
		if Check(o, l) == 0 {
			return l
		}
	}
	return perm.Write
}

// Name returns the name of o, "" if it has no row.
func Name(o Op) string { return table[o].name }

// Refuses reports whether o is refused at every level.
func Refuses(o Op) bool { return int(o) < len(table) && table[o].refusal }
