package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// lookup asks tr as the kernel would. A negative entry is ENOENT.
func lookup(tr *tree, dir uint64, name string, out *fuse.EntryOut) syscall.Errno {
	if out == nil {
		out = &fuse.EntryOut{}
	}
	s := tr.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, out)
	if s == fuse.OK && out.NodeId == 0 {
		return syscall.ENOENT
	}
	return syscall.Errno(s)
}
