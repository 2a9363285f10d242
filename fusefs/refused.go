package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/perm"
)

// refuse returns the errno of an operation that the gate refuses at every level.
func (t *tree) refuse(o op) fuse.Status {
	t.count(o)
	return fuse.Status(check(o, perm.Write))
}

// After ENOSYS the kernel does these itself, by the presented modes, without asking again.

func (t *tree) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status {
	return t.refuse(opOpen)
}

func (t *tree) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status {
	return t.refuse(opOpendir)
}

func (t *tree) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return t.refuse(opFlush) }

func (t *tree) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return t.refuse(opAccess) }

// Extended attributes include ACLs and capabilities, which would get around the gate.

func (t *tree) GetXAttr(<-chan struct{}, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, t.refuse(opGetxattr)
}

func (t *tree) ListXAttr(<-chan struct{}, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, t.refuse(opListxattr)
}

func (t *tree) SetXAttr(<-chan struct{}, *fuse.SetXAttrIn, string, []byte) fuse.Status {
	return t.refuse(opSetxattr)
}

func (t *tree) RemoveXAttr(<-chan struct{}, *fuse.InHeader, string) fuse.Status {
	return t.refuse(opRemovexattr)
}

// The kernel keeps locks itself: it asks only a server that requests it.

func (t *tree) GetLk(<-chan struct{}, *fuse.LkIn, *fuse.LkOut) fuse.Status {
	return t.refuse(opGetlk)
}

func (t *tree) SetLk(<-chan struct{}, *fuse.LkIn) fuse.Status { return t.refuse(opSetlk) }

func (t *tree) SetLkw(<-chan struct{}, *fuse.LkIn) fuse.Status { return t.refuse(opSetlkw) }

// A file without a name would have no level until it is linked.

func (t *tree) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return t.refuse(opTmpfile)
}

func (t *tree) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return t.refuse(opIoctl)
}

// Without Statx the kernel uses GetAttr.
func (t *tree) Statx(<-chan struct{}, *fuse.StatxIn, *fuse.StatxOut) fuse.Status {
	return t.refuse(opStatx)
}

// The server gives out no handles, so there is nothing to release.

func (t *tree) Release(<-chan struct{}, *fuse.ReleaseIn) { t.count(opRelease) }

func (t *tree) ReleaseDir(*fuse.ReleaseIn) { t.count(opReleasedir) }
