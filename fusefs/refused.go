package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// refuse returns the errno of an operation that the gate refuses at every level. Those without
// a method of tree get ENOSYS from fuse.NewDefaultRawFileSystem.
func refuse(o gate.Op) fuse.Status { return fuse.Status(gate.Check(o, perm.Write)) }

func (t *tree) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status {
	return refuse(gate.OpOpen)
}

func (t *tree) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return refuse(gate.OpFlush) }

func (t *tree) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return refuse(gate.OpTmpfile)
}

func (t *tree) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return refuse(gate.OpIoctl)
}
