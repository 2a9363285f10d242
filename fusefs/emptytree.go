package fusefs

import (
	"context"
	"errors"
	"os"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/device"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// ServeBlank is [Serve] for a tree whose directory is not known yet: it ignores Root and Rules of opts, and is an
// empty directory in which nothing can be done, not even list it, until [Server.Give]. opts.Copy must be nil.
func ServeBlank(ctx context.Context, dev *os.File, opts *Options) (*Server, error) {
	if opts.Copy != nil {
		_ = dev.Close()
		return nil, errors.New("serve a tree: a copy needs its directory")
	}
	t, err := blankTree(opts)
	if err != nil {
		_ = dev.Close()
		return nil, err
	}
	return t.serve(ctx, dev)
}

// errGiven is returned for a second directory.
var errGiven = errors.New("the tree has its directory already, or is unmounted")

// Give makes a tree of [ServeBlank] that of the directory root, of which O_PATH is enough and which Give duplicates.
// git and unguarded are those of Options. It can be called once; after an error it may be called again.
func (s *Server) Give(root int, rules Rules, git *Git, unguarded bool) error {
	t := s.tree
	t.levels.rulesMu.Lock()
	defer t.levels.rulesMu.Unlock()
	if t.root != nil || t.ended {
		return errGiven
	}
	t.guard.unguarded = unguarded
	// The kernel has nothing in its caches: what it was answered counts for no time, and the rest was refused.
	return t.settle(root, rules, &Options{NoWatch: t.noWatch, Git: git})
}

// Rehearse does as [Server.Give] for a tree that no one sees, so that what is slow for the first time is over before.
func (s *Server) Rehearse(root int, rules Rules) error {
	like := s.tree
	t, err := blankTree(&Options{Owner: like.attrs.owner, Logger: like.logger, FDs: 16, Memory: 1 << 20})
	if err != nil {
		return err
	}
	err = t.settle(root, rules, &Options{NoWatch: like.noWatch})
	go func() { // ends when the kernel has freed the group, which takes it a while
		t.git.rest()
		t.watch.close()
		t.close()
	}()
	return err
}

// blank answers a message for a tree without a root; ok is false if the tree has one. The caller holds rulesMu. The
// answers that count for longer than a moment are those of the gate.
func (t *tree) blank(b *device.Buffers) (size int, ok bool) {
	if t.root != nil {
		return 0, false
	}
	in := (*fuse.InHeader)(unsafe.Pointer(&b.In[0]))
	out := (*fuse.OutHeader)(unsafe.Pointer(&b.Out[0]))
	*out = fuse.OutHeader{Unique: in.Unique}
	size = int(unsafe.Sizeof(*out))
	answer := unsafe.Pointer(&b.Out[size])
	o := gate.Op(min(in.Opcode, uint32(gate.OpUnknown)))
	switch {
	case o == gate.OpForget, o == gate.OpBatchForget, o == gate.OpInterrupt:
		return 0, true
	case o == gate.OpGetattr && in.NodeId == rootID:
		a := (*fuse.AttrOut)(answer)
		owner := fuse.Owner{Uid: t.attrs.owner.UID, Gid: t.attrs.owner.GID}
		*a = fuse.AttrOut{Attr: fuse.Attr{Ino: rootID, Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Owner: owner}}
		size += int(unsafe.Sizeof(*a))
	case o == gate.OpStatfs:
		s := (*fuse.StatfsOut)(answer)
		*s = fuse.StatfsOut{}
		s.Bsize, s.Frsize, s.NameLen = uint32(unix.Getpagesize()), uint32(unix.Getpagesize()), unix.NAME_MAX
		size += int(unsafe.Sizeof(*s))
	case o == gate.OpLookup:
		out.Status = -int32(syscall.ENOENT)
	case gate.Refuses(o):
		out.Status = -int32(gate.Check(o, perm.None))
	default:
		out.Status = -int32(syscall.EACCES)
	}
	out.Length = uint32(size)
	return size, true
}
