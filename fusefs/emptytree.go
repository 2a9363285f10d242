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

// ServeEmpty is [Serve] for a tree whose directory is not known yet. It ignores Root and Rules of
// opts. Until [Server.Attach] the tree is an empty directory that refuses all operations, also
// listing. opts.Copy must be nil.
func ServeEmpty(ctx context.Context, dev *os.File, opts *Options) (*Server, error) {
	if opts.Copy != nil {
		_ = dev.Close()
		return nil, errors.New("serve a tree: a copy needs its directory")
	}
	t, err := emptyTree(opts)
	if err != nil {
		_ = dev.Close()
		return nil, err
	}
	return t.serve(ctx, dev)
}

// errAttached is returned for a second directory.
var errAttached = errors.New("the tree has its directory already, or is unmounted")

// Attach makes a tree of [ServeEmpty] serve the directory root. Attach duplicates root, for which
// O_PATH is enough. git and unguarded are those of Options. Attach succeeds once; after an error
// it may be called again.
func (s *Server) Attach(root int, rules Rules, git *Git, unguarded bool) error {
	t := s.tree
	t.levels.rulesMu.Lock()
	defer t.levels.rulesMu.Unlock()
	if t.root != nil || t.ended {
		return errAttached
	}
	t.guard.unguarded = unguarded
	// The kernel has nothing in its caches: the answers so far had no lifetime, or were refusals.
	return t.setRoot(root, rules, &Options{NoWatch: t.noWatch, Git: git})
}

// WarmUp runs the steps of [Server.Attach] on a tree that is not mounted, so that the first Attach
// is fast.
func (s *Server) WarmUp(root int, rules Rules) error {
	like := s.tree
	t, err := emptyTree(&Options{Owner: like.attrs.owner, Logger: like.Logger, FDs: 16, Memory: 1 << 20})
	if err != nil {
		return err
	}
	err = t.setRoot(root, rules, &Options{NoWatch: like.noWatch})
	go func() { // ends when the kernel has freed the fanotify group, which takes a while
		t.git.stop()
		t.watch.close()
		t.close()
	}()
	return err
}

// answerEmpty answers a message for a tree without a root. ok is false if the tree has a root. The
// caller holds rulesMu. Only answers of the gate stay valid after Attach.
func (t *tree) answerEmpty(b *device.Buffers) (size int, ok bool) {
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
