// Package device is the kernel's end of a mounted FUSE file system: it reads the messages, has
// them answered, and sends notifications. It knows nothing of what the file system has.
package device

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// MaxWrite is the maximum of data in one READ or WRITE, in bytes.
	MaxWrite = 1 << 20

	// BufferSize has room for a page that ends with the headers, for MaxWrite, and for what the
	// kernel requires beyond (fuse_dev_do_read in fs/fuse/dev.c).
	BufferSize = MaxWrite + 2*pageSize

	// pageSize is that of most kernels; with larger pages copies are only slower.
	pageSize = 4096

	// RequestTimeout is how long the kernel waits for an answer before it aborts the whole
	// tree, so that a stuck server does not block its users for good. A sync to a slow disk
	// may take minutes. Before Linux 6.15 there is no limit.
	RequestTimeout = 300 // seconds
)

// The sizes of headers: of an answer, and of a WRITE, before the data.
const (
	OutHeader   = int(unsafe.Sizeof(fuse.OutHeader{}))
	WriteHeader = int(unsafe.Sizeof(fuse.WriteIn{}))
)

// A Device reads messages, and sends answers and notifications. Its methods are safe for
// concurrent use once Greet has returned.
type Device struct {
	Epochs  bool          // the kernel can drop all names at once; set by Greet
	Spliced atomic.Uint64 // READs that were answered through a pipe

	// Ended is closed when the file system is unmounted.
	Ended chan struct{}
	// Patience is how much longer than RequestTimeout an answer may take, for Greet.
	Patience time.Duration

	fd       int
	handlers handlers
	pipes    pipes
}

// New returns a device that answers up to limit messages at once. Serve calls answer for each, by
// several goroutines, with the message of n bytes in b.In. answer returns the size of its reply in
// b.Out, 0 if the message has no reply, or Splice has sent it.
func New(limit int, logger *slog.Logger, answer func(b *Buffers, n int) (size int)) *Device {
	over := make(chan struct{})
	return &Device{fd: -1, Ended: over, handlers: handlers{limit: limit, logger: logger, answer: answer, over: over}}
}

// Greet answers the first message of the device fd, which must have arrived, by proto. When it has
// returned nil, d is the device's and closes fd with Close.
func (d *Device) Greet(fd int, proto *fuse.ProtocolServer) error {
	b, err := NewBuffers()
	if err != nil {
		return err
	}
	defer b.Free()
	n, errno := readMessage(fd, b)
	if errno != 0 {
		return fmt.Errorf("read from the kernel: %w", errno)
	}
	const header, shortest = int(unsafe.Sizeof(fuse.InHeader{})), 16
	if n < header+shortest {
		return fmt.Errorf("read from the kernel: only %d bytes", n)
	}
	major := binary.NativeEndian.Uint32(b.In[header:])
	minor := binary.NativeEndian.Uint32(b.In[header+4:])
	d.Epochs = major == 7 && minor >= 44 // FUSE_NOTIFY_INC_EPOCH
	size, status := proto.HandleRequest([][]byte{b.In[:n]}, [][]byte{b.Out})
	if !status.Ok() {
		return fmt.Errorf("answer the kernel: %w", syscall.Errno(status))
	}
	if size >= OutHeader+int(unsafe.Sizeof(fuse.InitOut{})) {
		// go-fuse has no option for it.
		out := (*fuse.InitOut)(unsafe.Pointer(&b.Out[OutHeader]))
		if out.Flags64()&fuse.CAP_REQUEST_TIMEOUT != 0 {
			out.RequestTimeout = uint16(min(RequestTimeout+int64(d.Patience/time.Second), math.MaxUint16))
		}
	}
	if _, err := unix.Write(fd, b.Out[:size]); err != nil {
		return fmt.Errorf("answer the kernel: %w", err)
	}
	d.fd = fd
	return nil
}

// Serve answers messages until the file system is unmounted.
func (d *Device) Serve() {
	d.handlers.fd = d.fd
	d.handlers.serve()
	d.pipes.close()
}

// Park calls wait, which answer does for a message that waits long: others are answered meanwhile,
// as many as without it.
func (d *Device) Park(wait func()) {
	h := &d.handlers
	h.parked.Add(1)
	defer h.parked.Add(-1)
	if h.reading.Load() == 0 {
		h.more(h.limit)
	}
	wait()
}

// Close closes the device. Serve has returned.
func (d *Device) Close() { unix.Close(d.fd) }

// The notifications (linux/fuse.h, enum fuse_notify_code). Each may block until a holder of the
// inode gets an answer: a goroutine that answers requests must not send them.

// InvalInode makes the kernel drop the attributes of the node id, and with content its content
// or listing. ENOENT: the kernel does not know it.
func (d *Device) InvalInode(id uint64, content bool) syscall.Errno {
	out := fuse.NotifyInvalInodeOut{Ino: id, Off: -1}
	if content {
		out.Off = 0 // to the end, since the length is 0
	}
	return d.notify(fuse.NOTIFY_INVAL_INODE, unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out)), "")
}

// InvalEntry makes the kernel look up the entry called name of the directory dir again. With
// gone the kernel removes the entry now, else it expires. ENOENT: it does not know the entry.
func (d *Device) InvalEntry(dir uint64, name string, gone bool) syscall.Errno {
	out := fuse.NotifyInvalEntryOut{Parent: dir, NameLen: uint32(len(name))}
	if !gone {
		// Before Linux 6.2 it is dropped anyway: getcwd(2) fails in such a directory
		// until its name is looked up.
		out.Flags = fuse.EXPIRE_ONLY
	}
	return d.notify(fuse.NOTIFY_INVAL_ENTRY, unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out)), name+"\x00")
}

// RemoveEntry makes the kernel remove the entry called name of the directory dir, and report the
// end of the node child to those that watch it, if the entry is that node's.
func (d *Device) RemoveEntry(dir, child uint64, name string) syscall.Errno {
	out := fuse.NotifyInvalDeleteOut{Parent: dir, Child: child, NameLen: uint32(len(name))}
	return d.notify(fuse.NOTIFY_DELETE, unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out)), name+"\x00")
}

// NewEpoch makes the kernel look up every name again, including those that it knows not to
// exist. It needs Epochs.
func (d *Device) NewEpoch() syscall.Errno { return d.notify(fuse.NOTIFY_INC_EPOCH, nil, "") }

// Prune makes the kernel forget the unused among the nodes. EINVAL: it does not know how.
func (d *Device) Prune(ids []uint64) syscall.Errno {
	const code, header = -9, 16 // FUSE_NOTIFY_PRUNE, struct fuse_notify_prune_out
	body := binary.NativeEndian.AppendUint32(make([]byte, 0, header+8*len(ids)), uint32(len(ids)))
	body = append(body, make([]byte, header-4)...)
	for _, id := range ids {
		body = binary.NativeEndian.AppendUint64(body, id)
	}
	return d.notify(code, body, "")
}

func (d *Device) notify(code int32, body []byte, name string) syscall.Errno {
	const size = int(unsafe.Sizeof(fuse.OutHeader{}))
	msg := make([]byte, size, size+len(body)+len(name))
	msg = append(append(msg, body...), name...)
	// In a notification the status, negated in answers, is the code.
	*(*fuse.OutHeader)(unsafe.Pointer(&msg[0])) = fuse.OutHeader{Length: uint32(len(msg)), Status: -code}
	_, err := unix.Write(d.fd, msg)
	errno, _ := err.(syscall.Errno)
	return errno
}
