package fusefs

import (
	"bytes"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The most frequent messages are answered without go-fuse, which allocates memory for each; and so that the data of a READ need
// not pass through this process (splice.go).

const (
	outHeader   = int(unsafe.Sizeof(fuse.OutHeader{}))
	readHeader  = int(unsafe.Sizeof(fuse.ReadIn{}))
	writeHeader = int(unsafe.Sizeof(fuse.WriteIn{})) // before the data
	inHeader    = int(unsafe.Sizeof(fuse.InHeader{}))
	attrHeader  = int(unsafe.Sizeof(fuse.GetAttrIn{}))
)

// reply makes the header of an answer with size bytes of data, which are in b.out already, or an
// error and no data. It returns the size of the answer.
func (b *buffers) reply(errno syscall.Errno, size int) int {
	if errno != 0 {
		size = 0
	}
	in, out := (*fuse.InHeader)(unsafe.Pointer(&b.in[0])), (*fuse.OutHeader)(unsafe.Pointer(&b.out[0]))
	*out = fuse.OutHeader{Length: uint32(outHeader + size), Status: -int32(errno), Unique: in.Unique}
	return outHeader + size
}

// directly says which messages these are.
var directly = [len(gate)]bool{opLookup: true, opGetattr: true, opRead: true, opWrite: true}

// answerDirectly is answer for such a message of n bytes.
func (d *device) answerDirectly(o op, b *buffers, n int) (size int) {
	defer func() {
		if v := recover(); v != nil {
			size = b.reply(syscall.Errno(panicked(d.logger, v)), 0)
		}
	}()
	switch {
	case o == opLookup && n > inHeader:
		text, _, _ := bytes.Cut(b.in[inHeader:n], []byte{0})
		name := string(text)
		d.walking.looked(name, &d.counts[opRead])
		out := (*fuse.EntryOut)(unsafe.Pointer(&b.out[outHeader]))
		*out = fuse.EntryOut{}
		status := d.tree.Lookup(nil, (*fuse.InHeader)(unsafe.Pointer(&b.in[0])), name, out)
		return b.reply(syscall.Errno(status), int(unsafe.Sizeof(*out)))
	case o == opGetattr && n >= attrHeader:
		out := (*fuse.AttrOut)(unsafe.Pointer(&b.out[outHeader]))
		*out = fuse.AttrOut{}
		status := d.tree.GetAttr(nil, (*fuse.GetAttrIn)(unsafe.Pointer(&b.in[0])), out)
		return b.reply(syscall.Errno(status), int(unsafe.Sizeof(*out)))
	case o == opRead && n >= readHeader:
		return d.answerRead(b, (*fuse.ReadIn)(unsafe.Pointer(&b.in[0])))
	case o == opWrite && n >= writeHeader:
		return d.answerWrite(b, (*fuse.WriteIn)(unsafe.Pointer(&b.in[0])), b.in[writeHeader:n])
	}
	return b.reply(syscall.EIO, 0)
}

// answerRead answers a READ.
func (d *device) answerRead(b *buffers, in *fuse.ReadIn) (size int) {
	data := b.out[outHeader:]
	if int64(in.Size) > int64(len(data)) {
		return b.reply(syscall.EIO, 0) // a shorter answer would be the end of the file
	}
	h, errno := d.tree.openRead(opRead, &in.InHeader, in.NodeId)
	if errno != 0 {
		return b.reply(errno, 0)
	}
	defer h.release()
	if d.spliceRead(b, h.fd, int64(in.Offset), int(in.Size)) {
		return 0
	}
	b.large = b.large || in.Size > minSplice
	n, errno := readFull(h.fd, data[:in.Size], int64(in.Offset))
	return b.reply(errno, n)
}

// answerWrite answers a WRITE of data.
func (d *device) answerWrite(b *buffers, in *fuse.WriteIn, data []byte) int {
	if int64(in.Size) != int64(len(data)) {
		return b.reply(syscall.EIO, 0)
	}
	b.large = b.large || in.Size > minSplice
	n, status := d.tree.Write(nil, in, data)
	out := (*fuse.WriteOut)(unsafe.Pointer(&b.out[outHeader]))
	*out = fuse.WriteOut{Size: n}
	return b.reply(syscall.Errno(status), int(unsafe.Sizeof(*out)))
}
