package fusefs

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// maxWrite is the maximum of data in one READ or WRITE, in bytes.
	maxWrite = 1 << 20

	// bufferSize has room for a page that ends with the headers, for maxWrite, and for what the
	// kernel requires beyond (fuse_dev_do_read in fs/fuse/dev.c).
	bufferSize = maxWrite + 2*pageSize

	// pageSize is that of most kernels; with larger pages copies are only slower.
	pageSize = 4096

	// requestTimeout is how long the kernel waits for an answer before it aborts the whole
	// tree, so that a stuck server does not block its users for good. A sync to a slow disk
	// may take minutes. Before Linux 6.15 there is no limit.
	requestTimeout = 300 // seconds
)

// A device is the kernel's end of a mounted tree. go-fuse decodes and encodes the messages; the
// device reads them, and takes the locks.
type device struct {
	fd     int
	tree   *tree
	proto  *fuse.ProtocolServer
	logger *slog.Logger
	epochs bool // the kernel can drop all names at once
	// blank answers a message for a tree without a root; ok is false if the tree has one. The
	// caller holds rulesMu.
	blank func(b *buffers) (size int, ok bool)

	walking  walking
	handlers handlers
	pipes    pipes
	counts   [len(gate)]atomic.Uint64
	spliced  atomic.Uint64 // READs that were answered through a pipe
}

// greet answers the kernel's first message, which must have arrived.
func (d *device) greet() error {
	b, err := newBuffers()
	if err != nil {
		return err
	}
	defer b.free()
	n, errno := readMessage(d.fd, b)
	if errno != 0 {
		return fmt.Errorf("read from the kernel: %w", errno)
	}
	const header, shortest = int(unsafe.Sizeof(fuse.InHeader{})), 16
	if n < header+shortest {
		return fmt.Errorf("read from the kernel: only %d bytes", n)
	}
	major := binary.NativeEndian.Uint32(b.in[header:])
	minor := binary.NativeEndian.Uint32(b.in[header+4:])
	d.epochs = major == 7 && minor >= 44 // FUSE_NOTIFY_INC_EPOCH
	size, status := d.proto.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	if !status.Ok() {
		return fmt.Errorf("answer the kernel: %w", syscall.Errno(status))
	}
	if size >= outHeader+int(unsafe.Sizeof(fuse.InitOut{})) {
		// go-fuse has no option for it.
		out := (*fuse.InitOut)(unsafe.Pointer(&b.out[outHeader]))
		if out.Flags64()&fuse.CAP_REQUEST_TIMEOUT != 0 {
			out.RequestTimeout = requestTimeout
		}
	}
	if _, err := unix.Write(d.fd, b.out[:size]); err != nil {
		return fmt.Errorf("answer the kernel: %w", err)
	}
	return nil
}

// serve answers messages until the tree is unmounted.
func (d *device) serve() {
	d.handlers.fd, d.handlers.handle, d.handlers.logger = d.fd, d.handle, d.logger
	d.handlers.serve()
	d.pipes.close()
}

// handle answers the message of n bytes in b.
func (d *device) handle(b *buffers, n int) {
	size := d.answer(b, n)
	if size == 0 {
		return
	}
	_, err := unix.Write(d.fd, b.out[:size])
	switch err {
	case nil, syscall.ENOENT, syscall.ENODEV: // the request was interrupted, or the tree unmounted
	default:
		d.logger.Warn("answer the kernel", "error", err)
	}
}

// answer answers the message of n bytes in b, and returns the size of the reply in b.out, 0 if
// there is none or it is sent already. The rules do not change meanwhile, unless the request lets them: see names.sync.
func (d *device) answer(b *buffers, n int) int {
	o := op(min(binary.NativeEndian.Uint32(b.in[4:]), uint32(opUnknown)))
	switch o {
	case opRename2:
		o = opRename
	case opBatchForget:
		o = opForget
	}
	d.counts[o].Add(1)
	if changing[o] {
		d.tree.changeMu.RLock()
		defer d.tree.changeMu.RUnlock()
	}
	d.tree.levels.rulesMu.RLock()
	defer d.tree.levels.rulesMu.RUnlock()
	if size, ok := d.blank(b); ok {
		return size
	}
	switch {
	case directly[o]:
		return d.answerDirectly(o, b, n)
	case o == opInterrupt:
		return b.reply(syscall.ENOSYS, 0)
	}
	b.inVec[0], b.outVec[0] = b.in[:n], b.out
	size, status := d.proto.HandleRequest(b.inVec[:], b.outVec[:])
	if !status.Ok() {
		d.logger.Warn("a message could not be answered", "status", status)
		return 0
	}
	return size
}

// The notifications (linux/fuse.h, enum fuse_notify_code). Each may block until a holder of the
// inode gets an answer: a goroutine that answers requests must not send them.

// invalInode makes the kernel drop the attributes of the node id, and with content its content
// or listing. ENOENT: the kernel does not know it.
func (d *device) invalInode(id uint64, content bool) syscall.Errno {
	out := fuse.NotifyInvalInodeOut{Ino: id, Off: -1}
	if content {
		out.Off = 0 // to the end, since the length is 0
	}
	return d.notify(fuse.NOTIFY_INVAL_INODE, unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out)), "")
}

// invalEntry makes the kernel look up the entry called name of the directory dir again. With
// gone the kernel removes the entry now, else it expires. ENOENT: it does not know the entry.
func (d *device) invalEntry(dir uint64, name string, gone bool) syscall.Errno {
	out := fuse.NotifyInvalEntryOut{Parent: dir, NameLen: uint32(len(name))}
	if !gone {
		// Before Linux 6.2 it is dropped anyway: getcwd(2) fails in such a directory
		// until its name is looked up.
		out.Flags = fuse.EXPIRE_ONLY
	}
	return d.notify(fuse.NOTIFY_INVAL_ENTRY, unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out)), name+"\x00")
}

// newEpoch makes the kernel look up every name again, including those that it knows not to
// exist. It needs epochs.
func (d *device) newEpoch() syscall.Errno { return d.notify(fuse.NOTIFY_INC_EPOCH, nil, "") }

// prune makes the kernel forget the unused among the nodes. EINVAL: it does not know how.
func (d *device) prune(ids []uint64) syscall.Errno {
	const code, header = -9, 16 // FUSE_NOTIFY_PRUNE, struct fuse_notify_prune_out
	body := binary.NativeEndian.AppendUint32(make([]byte, 0, header+8*len(ids)), uint32(len(ids)))
	body = append(body, make([]byte, header-4)...)
	for _, id := range ids {
		body = binary.NativeEndian.AppendUint64(body, id)
	}
	return d.notify(code, body, "")
}

func (d *device) notify(code int32, body []byte, name string) syscall.Errno {
	const size = int(unsafe.Sizeof(fuse.OutHeader{}))
	msg := make([]byte, size, size+len(body)+len(name))
	msg = append(append(msg, body...), name...)
	// In a notification the status, negated in answers, is the code.
	*(*fuse.OutHeader)(unsafe.Pointer(&msg[0])) = fuse.OutHeader{Length: uint32(len(msg)), Status: -code}
	_, err := unix.Write(d.fd, msg)
	return errnoOf(err)
}
