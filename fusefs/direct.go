package fusefs

import (
	"bytes"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/fusefs/device"
	"wolffia/fusefs/gate"
)

// The most frequent messages are answered without go-fuse, which allocates memory for each; and so
// that the data of a READ need not pass through this process (device.Device.Splice).

const (
	outHeader   = device.OutHeader
	readHeader  = int(unsafe.Sizeof(fuse.ReadIn{}))
	writeHeader = device.WriteHeader
	inHeader    = int(unsafe.Sizeof(fuse.InHeader{}))
	attrHeader  = int(unsafe.Sizeof(fuse.GetAttrIn{}))
)

// directly lists these messages.
var directly = [gate.Ops]bool{gate.OpLookup: true, gate.OpGetattr: true, gate.OpRead: true, gate.OpWrite: true}

// answerDirectly is answer for such a message of n bytes.
func (r *responder) answerDirectly(o gate.Op, b *device.Buffers, n int) (size int) {
	defer func() {
		if v := recover(); v != nil {
			size = b.Reply(syscall.Errno(panicked(r.tree.Logger, v)), 0)
		}
	}()
	switch {
	case o == gate.OpLookup && n > inHeader:
		text, _, _ := bytes.Cut(b.In[inHeader:n], []byte{0})
		name := string(text)
		r.tree.kernel.sequential.count(name, &r.counts[gate.OpRead])
		out := (*fuse.EntryOut)(unsafe.Pointer(&b.Out[outHeader]))
		*out = fuse.EntryOut{}
		status := r.tree.Lookup(nil, (*fuse.InHeader)(unsafe.Pointer(&b.In[0])), name, out)
		return b.Reply(syscall.Errno(status), int(unsafe.Sizeof(*out)))
	case o == gate.OpGetattr && n >= attrHeader:
		out := (*fuse.AttrOut)(unsafe.Pointer(&b.Out[outHeader]))
		*out = fuse.AttrOut{}
		status := r.tree.GetAttr(nil, (*fuse.GetAttrIn)(unsafe.Pointer(&b.In[0])), out)
		return b.Reply(syscall.Errno(status), int(unsafe.Sizeof(*out)))
	case o == gate.OpRead && n >= readHeader:
		return r.answerRead(b, (*fuse.ReadIn)(unsafe.Pointer(&b.In[0])))
	case o == gate.OpWrite && n >= writeHeader:
		return r.answerWrite(b, (*fuse.WriteIn)(unsafe.Pointer(&b.In[0])), b.In[writeHeader:n])
	}
	return b.Reply(syscall.EIO, 0)
}

// answerRead answers a READ.
func (r *responder) answerRead(b *device.Buffers, in *fuse.ReadIn) (size int) {
	data := b.Out[outHeader:]
	if int64(in.Size) > int64(len(data)) {
		return b.Reply(syscall.EIO, 0) // a shorter answer would be the end of the file
	}
	h, errno := r.tree.openRead(gate.OpRead, &in.InHeader, in.NodeId)
	if errno != 0 {
		return b.Reply(errno, 0)
	}
	defer h.release()
	if r.tree.kernel.dev.Splice(b, h.fd, int64(in.Offset), int(in.Size)) {
		return 0
	}
	b.Touched(in.Size)
	n, errno := readFull(h.fd, data[:in.Size], int64(in.Offset))
	return b.Reply(errno, n)
}

// answerWrite answers a WRITE of data.
func (r *responder) answerWrite(b *device.Buffers, in *fuse.WriteIn, data []byte) int {
	if int64(in.Size) != int64(len(data)) {
		return b.Reply(syscall.EIO, 0)
	}
	b.Touched(in.Size)
	n, status := r.tree.Write(nil, in, data)
	out := (*fuse.WriteOut)(unsafe.Pointer(&b.Out[outHeader]))
	*out = fuse.WriteOut{Size: n}
	return b.Reply(syscall.Errno(status), int(unsafe.Sizeof(*out)))
}
