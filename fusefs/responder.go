package fusefs

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/fusefs/device"
	"wolffia/fusefs/gate"
)

// A responder has the messages of a device answered by a tree, under the tree's locks. go-fuse
// decodes and encodes them, but the most frequent ones (direct.go).
type responder struct {
	tree   *tree
	proto  *fuse.ProtocolServer
	echo   *fuse.ProtocolServer // of an echoTree
	counts [gate.Ops]atomic.Uint64
}

// answer answers the message of n bytes in b, and returns the size of the reply in b.Out, 0 if the
// message has no reply or the reply is sent already. The rules do not change meanwhile, unless the
// request lets them: see names.sync.
func (r *responder) answer(b *device.Buffers, n int) int {
	o := gate.Op(min(binary.NativeEndian.Uint32(b.In[4:]), uint32(gate.OpUnknown)))
	switch o {
	case gate.OpRename2:
		o = gate.OpRename
	case gate.OpBatchForget:
		o = gate.OpForget
	}
	r.counts[o].Add(1)
	if changing[o] {
		r.tree.changeMu.RLock()
		defer r.tree.changeMu.RUnlock()
	}
	r.tree.levels.rulesMu.RLock()
	defer r.tree.levels.rulesMu.RUnlock()
	if size, ok := r.tree.answerEmpty(b); ok {
		return size
	}
	switch {
	case r.tree.echoes.repeats((*fuse.InHeader)(unsafe.Pointer(&b.In[0]))):
		return r.handle(r.echo, b, n)
	case directly[o]:
		return r.answerDirectly(o, b, n)
	case o == gate.OpInterrupt:
		return b.Reply(syscall.ENOSYS, 0)
	}
	return r.handle(r.proto, b, n)
}

// handle is answer by go-fuse.
func (r *responder) handle(proto *fuse.ProtocolServer, b *device.Buffers, n int) int {
	size, status := proto.HandleRequest(b.Vectors(n))
	if !status.Ok() {
		r.tree.Logger.Warn("a message could not be answered", "status", status)
		return 0
	}
	return size
}
