package fusefs

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// buffers are the memory of one request and its answer. They are outside of Go's heap: unused
// pages take no memory, and the garbage collector does not count them. What a WRITE brings and
// what a READ returns begins a page: the kernel copies data page by page, and each of its pages
// from or to two of ours otherwise.
type buffers struct {
	mem           []byte
	large         bool // a large message has touched many of its pages
	in, out       []byte
	inVec, outVec [1][]byte
}

func newBuffers() (*buffers, error) {
	mem, err := unix.Mmap(-1, 0, 2*bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	const in, out = pageSize - writeHeader, bufferSize + pageSize - outHeader
	return &buffers{mem: mem, in: mem[in:bufferSize:bufferSize], out: mem[out:]}, nil
}

func (b *buffers) free() { _ = unix.Munmap(b.mem) }

// maxIdleBuffers is how many buffers wait for a handler.
const maxIdleBuffers = 3

// spareBuffers are buffers for the next handler, of those that have ended: handlers come and go with
// each burst of messages, and to map and unmap memory costs as much as to answer a few. At most maxIdleBuffers
// are kept, and none with large set. Its methods are safe for concurrent use; the zero value has none.
type spareBuffers struct {
	mu   sync.Mutex
	idle []*buffers // guarded by mu
}

// take returns buffers for give.
func (s *spareBuffers) take() (*buffers, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		defer s.mu.Unlock()
		b := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return b, nil
	}
	s.mu.Unlock()
	return newBuffers()
}

// give keeps b, or frees it.
func (s *spareBuffers) give(b *buffers) {
	s.mu.Lock()
	if len(s.idle) < maxIdleBuffers && !b.large {
		defer s.mu.Unlock()
		s.idle = append(s.idle, b)
		return
	}
	s.mu.Unlock()
	b.free()
}

// close frees what is kept. No handler runs.
func (s *spareBuffers) close() {
	for _, b := range s.idle {
		b.free()
	}
	s.idle = nil
}
