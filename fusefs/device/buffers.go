package device

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Buffers are the memory of one request and its answer. They are outside of Go's heap: unused
// pages take no memory, and the garbage collector does not count them. What a WRITE brings and
// what a READ returns begins a page: the kernel copies data page by page, and each of its pages
// from or to two of ours otherwise.
type Buffers struct {
	In, Out       []byte
	mem           []byte
	inVec, outVec [1][]byte
	large         bool // a large message has touched many of its pages
}

// NewBuffers returns buffers for one message at a time. The caller calls Free.
func NewBuffers() (*Buffers, error) {
	mem, err := unix.Mmap(-1, 0, 2*BufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	const in, out = pageSize - WriteHeader, BufferSize + pageSize - OutHeader
	return &Buffers{mem: mem, In: mem[in:BufferSize:BufferSize], Out: mem[out:]}, nil
}

// Free unmaps b.
func (b *Buffers) Free() { _ = unix.Munmap(b.mem) }

// Vectors returns the message of n bytes in b, and the room for its answer, as go-fuse takes them.
func (b *Buffers) Vectors(n int) (in, out [][]byte) {
	b.inVec[0], b.outVec[0] = b.In[:n], b.Out
	return b.inVec[:], b.outVec[:]
}

// Touched records that size bytes of data are in b.
func (b *Buffers) Touched(size uint32) { b.large = b.large || size > minSplice }

// Reply makes the header of an answer with size bytes of data, which are in b.Out already, or an
// error and no data. It returns the size of the answer.
func (b *Buffers) Reply(errno syscall.Errno, size int) int {
	if errno != 0 {
		size = 0
	}
	in, out := (*fuse.InHeader)(unsafe.Pointer(&b.In[0])), (*fuse.OutHeader)(unsafe.Pointer(&b.Out[0]))
	*out = fuse.OutHeader{Length: uint32(OutHeader + size), Status: -int32(errno), Unique: in.Unique}
	return OutHeader + size
}

// maxIdleBuffers is how many buffers wait for a handler.
const maxIdleBuffers = 3

// A bufferPool has the buffers of handlers that have ended, for the next handler. Handlers start
// and end with each burst of messages, and mapping memory costs as much as a few answers. The pool
// keeps at most maxIdleBuffers, and none with large set. Its methods are safe for concurrent use.
// The zero value is an empty pool.
type bufferPool struct {
	mu   sync.Mutex
	idle []*Buffers // guarded by mu
}

// get returns buffers; put returns them to the pool.
func (s *bufferPool) get() (*Buffers, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		defer s.mu.Unlock()
		b := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return b, nil
	}
	s.mu.Unlock()
	return NewBuffers()
}

// put returns b to the pool, or frees it.
func (s *bufferPool) put(b *Buffers) {
	s.mu.Lock()
	if len(s.idle) < maxIdleBuffers && !b.large {
		defer s.mu.Unlock()
		s.idle = append(s.idle, b)
		return
	}
	s.mu.Unlock()
	b.Free()
}

// close frees the pooled buffers. No handler runs.
func (s *bufferPool) close() {
	for _, b := range s.idle {
		b.Free()
	}
	s.idle = nil
}
