package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/echo"
)

// An echoTree is the tree for the thread that repeats the host's changes. It changes nothing: it
// answers what repeats a change of the latest batch as if it did it now, so that the kernel reports
// it to those that watch, and refuses what would change anything else. Only that thread gets these
// answers: to another one a name that exists would be missing, or the other way round.
type echoTree struct{ *tree }

// ghostID is the node of names that were removed before the kernel knew them. Nothing is asked
// about it but to forget it.
const ghostID = 1 << 63

// Lookup finds a name as it was before the change that is about to be repeated. The kernel does not
// keep the answer.
func (t echoTree) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if t.echoes.isProbe(in.NodeId, name) {
		t.ghost(unix.S_IFREG, out)
		return fuse.OK
	}
	if t.echoes.answerOf(in.NodeId, name, echo.Made) != nil {
		return fuse.ENOENT
	}
	n := t.echoes.answerOf(in.NodeId, name, echo.Removed)
	if n == nil {
		return t.tree.Lookup(cancel, in, name, out)
	}
	t.gone(n, out)
	return fuse.OK
}

// gone fills in the reply for a name that was removed. If the kernel knows the node that had the
// name, those that watch it by itself learn of its end.
func (t echoTree) gone(n *notedChange, out *fuse.EntryOut) {
	if old := t.table.again(n.node); old != nil {
		o, errno := t.statNode(old)
		if errno == 0 && old.typ == n.typ {
			out.NodeId = old.id
			t.attrs.attr(o, old.getLevel(), old.getState(), &out.Attr)
			t.attrs.copiedAttr(old, &out.Attr)
			return
		}
		t.Forget(old.id, 1)
	}
	t.ghost(n.typ, out)
}

func (t echoTree) ghost(typ uint32, out *fuse.EntryOut) {
	out.NodeId = ghostID | uint64(typ)
	out.SetAttrTimeout(watchedTimeout) // it has none to ask for
	owner := fuse.Owner{Uid: t.attrs.owner.UID, Gid: t.attrs.owner.GID}
	out.Attr = fuse.Attr{Ino: out.NodeId, Mode: typ | 0o700, Nlink: 1, Owner: owner}
}

// made answers the request to make a name that exists since the change.
func (t echoTree) made(in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if t.echoes.answerOf(in.NodeId, name, echo.Made) == nil {
		return fuse.EROFS
	}
	t.echoes.answered(in.NodeId, name)
	status := t.tree.Lookup(nil, in, name, out)
	if status.Ok() && out.NodeId == 0 {
		return fuse.ENOENT
	}
	return status
}

// removed answers the request to remove a name that does not exist since the change.
func (t echoTree) removed(in *fuse.InHeader, name string) fuse.Status {
	if t.echoes.answerOf(in.NodeId, name, echo.Removed) == nil {
		return fuse.EROFS
	}
	e, errno := t.entry(in.NodeId, name)
	if errno == 0 {
		_, errno = t.echoes.look(&e)
	}
	if errno != syscall.ENOENT {
		return fuse.EBUSY // the host has made it again
	}
	t.echoes.answered(in.NodeId, name)
	return fuse.OK
}

func (t echoTree) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return t.made(&in.InHeader, name, out)
}

func (t echoTree) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return t.made(&in.InHeader, name, out)
}

func (t echoTree) Symlink(_ <-chan struct{}, in *fuse.InHeader, _, name string, out *fuse.EntryOut) fuse.Status {
	return t.made(in, name, out)
}

func (t echoTree) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return t.removed(in, name)
}

func (t echoTree) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return t.removed(in, name)
}

// SetAttr returns the attributes as they are.
func (t echoTree) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := t.table.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	o, errno := t.statNode(n)
	if errno != 0 {
		return fuse.Status(errno)
	}
	t.attrs.fillAttr(n, o, out)
	return fuse.OK
}

func (t echoTree) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}

func (t echoTree) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

func (t echoTree) Rename(<-chan struct{}, *fuse.RenameIn, string, string) fuse.Status {
	return fuse.EROFS
}

func (t echoTree) Write(<-chan struct{}, *fuse.WriteIn, []byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

func (t echoTree) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status { return fuse.EROFS }

func (t echoTree) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}
