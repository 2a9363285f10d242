package device

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// minSplice and maxSplice bound the bytes of a READ that is answered through a pipe. With
	// fewer the additional system calls take longer than a copy. The kernel reads 128 KiB
	// ahead, and twice that for POSIX_FADV_SEQUENTIAL.
	minSplice, maxSplice = 64 << 10, 256 << 10

	// pipeSize is enough for maxSplice and the header of the answer, in pages. All pipes of an
	// unprivileged user have 64 MiB (pipe(7)), beyond which those of the user's other programs
	// are made small: so a server has at most maxPipes, and only while it needs them.
	pipeSize = 2 * maxSplice
	maxPipes = 2

	// pipeIdle is after how long unused pipes are closed.
	pipeIdle = time.Second
)

// Splice answers a READ of size bytes at off with pages of the file fd's cache, without a copy
// in this process. The kernel copies them into the mount's cache: with SPLICE_F_MOVE it would take
// them out of the host's. It returns false if nothing was sent and the answer has to be a copy.
func (d *Device) Splice(b *Buffers, fd int, off int64, size int) bool {
	if size < minSplice || size > maxSplice {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	size = int(min(int64(size), st.Size-off)) // the kernel asks for whole pages
	if size < minSplice {
		return false
	}
	p, ok := d.pipes.get()
	if !ok {
		return false
	}
	total := b.Reply(0, size)
	if !p.fill(b.Out[:OutHeader], fd, off, size) {
		d.pipes.drop(p) // with its content
		return false
	}
	n, err := unix.Splice(p.r, nil, d.fd, nil, total, 0)
	switch {
	case err == nil && int(n) == total:
		d.Spliced.Add(1)
		d.pipes.put(p)
		return true
	case err == syscall.ENOENT, err == syscall.ENODEV: // as in handlers.next
		d.pipes.drop(p)
		return true
	}
	d.pipes.drop(p)
	return false
}

// A pipe has pipeSize bytes.
type pipe struct{ r, w int }

// fill writes header and size bytes of the file fd at off into p. It returns false if it could not:
// the file was truncated, or its file system has no pages to share.
func (p pipe) fill(header []byte, fd int, off int64, size int) bool {
	if n, err := unix.Write(p.w, header); err != nil || n != len(header) {
		return false
	}
	for size > 0 {
		n, err := unix.Splice(fd, &off, p.w, nil, size, unix.SPLICE_F_NONBLOCK)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		size -= int(n)
	}
	return true
}

// pipes are those of a device, at most maxPipes. Its methods are safe for concurrent use; the zero
// value has none.
type pipes struct {
	mu     sync.Mutex
	idle   []pipe // guarded by mu
	open   int    // guarded by mu
	used   bool   // since the timer was started; guarded by mu
	timed  bool   // the timer runs; guarded by mu
	closed bool   // guarded by mu
}

// get returns an empty pipe for put or drop; ok is false if the pool has none and cannot make one.
func (ps *pipes) get() (p pipe, ok bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.used = true
	if n := len(ps.idle); n > 0 {
		p = ps.idle[n-1]
		ps.idle = ps.idle[:n-1]
		return p, true
	}
	if ps.open == maxPipes || ps.closed {
		return pipe{}, false
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return pipe{}, false
	}
	p = pipe{fds[0], fds[1]}
	if n, err := unix.FcntlInt(uintptr(p.r), unix.F_SETPIPE_SZ, pipeSize); err != nil || n < pipeSize {
		p.close() // the user has too many pipes
		return pipe{}, false
	}
	ps.open++
	return p, true
}

// put returns p, which is empty, to the pool.
func (ps *pipes) put(p pipe) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		ps.open--
		p.close()
		return
	}
	ps.idle = append(ps.idle, p)
	if !ps.timed {
		ps.timed, ps.used = true, false
		time.AfterFunc(pipeIdle, ps.reap)
	}
}

// drop closes p, which may have something in it.
func (ps *pipes) drop(p pipe) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.open--
	p.close()
}

// reap closes idle pipes if none was used since the timer was started, else starts it again.
func (ps *pipes) reap() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.used && !ps.closed {
		ps.used = false
		time.AfterFunc(pipeIdle, ps.reap)
		return
	}
	ps.timed = false
	ps.closeIdle()
}

// close closes all pipes, those in use when they are given back.
func (ps *pipes) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.closed = true
	ps.closeIdle()
}

// closeIdle closes the idle pipes. The caller holds ps.mu.
func (ps *pipes) closeIdle() {
	for _, p := range ps.idle {
		p.close()
	}
	ps.open -= len(ps.idle)
	ps.idle = nil
}

func (p pipe) close() {
	unix.Close(p.r)
	unix.Close(p.w)
}
