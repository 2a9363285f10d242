package backing

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ObjectCost is charged for each file, directory or link besides its content, in bytes, so
// that empty ones are not free.
const ObjectCost = 4096

// A Quota bounds how many bytes operations of the tree add to the disk: blocks allocated, not
// sizes. Deleted and truncated bytes are subtracted, including bytes that existed before. In a
// copied tree it bounds the size of the upper layer. Its methods are safe for concurrent use; the
// comments of those that a nil quota may call say so.
type Quota struct {
	limit int64

	mu       sync.Mutex
	change   *sync.Cond           // used has decreased; uses mu
	used     int64                // may be negative; guarded by mu
	reserved int64                // for writes in progress; guarded by mu
	busy     map[Identity]*growth // files with writes in progress; guarded by mu
	unlinked map[Identity]int64   // bytes of files without a name, still open; guarded by mu
}

// A growth is that of one file.
type growth struct {
	writers int
	room    int64 // bytes allocated when last looked at
}

func NewQuota(limit int64) *Quota {
	q := &Quota{limit: limit, busy: map[Identity]*growth{}, unlinked: map[Identity]int64{}}
	q.change = sync.NewCond(&q.mu)
	return q
}

// Begin sets the bytes in use now, without unlinked files. q may be nil.
func (q *Quota) Begin(used int64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = used
	for _, size := range q.unlinked {
		q.used += size
	}
	q.change.Broadcast()
}

// closeDelay is how long the kernel may take to report that a file without a name was closed,
// which it does a little after rm(1) has returned.
const closeDelay = 100 * time.Millisecond

// room returns how many bytes may be added, negative if there are too many already. Compare
// it with a program's request, without adding to that: the request may be as large as an
// int64 holds. The caller holds q.mu.
func (q *Quota) room() int64 { return q.limit - q.used - q.reserved }

// fits reports whether there is room for n bytes. It waits up to closeDelay for unlinked files
// to be closed. The caller holds q.mu.
func (q *Quota) fits(n int64) bool {
	enough := func() bool { return n <= q.room() }
	if enough() || len(q.unlinked) == 0 {
		return enough()
	}
	late := false
	timer := time.AfterFunc(closeDelay, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		late = true
		q.change.Broadcast()
	})
	defer timer.Stop()
	for !enough() && !late && len(q.unlinked) > 0 {
		q.change.Wait()
	}
	return enough()
}

// allocated returns how many bytes of the disk the open file fd takes, 0 on an error.
func allocated(fd int) int64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Blocks * 512 // stat(2)
}

// Reserve charges n bytes if there is room for them, else it returns EDQUOT. A nil quota always
// has room.
func (q *Quota) Reserve(n int64) syscall.Errno {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fits(n) {
		return syscall.EDQUOT
	}
	q.used += n
	return 0
}

// Release subtracts n bytes. q may be nil.
func (q *Quota) Release(n int64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
}

// AtEnd is the offset of an append. The offset that the kernel sends is outdated if data was
// written by another name of the file.
const AtEnd = -1

// Grow is called before up to size bytes are written at off, or AtEnd, to the file id, open as
// fd. The caller calls done after the write: it charges what was allocated. Without room
// Grow returns EDQUOT, unless the write only replaces allocated bytes. q may be nil.
func (q *Quota) Grow(id Identity, fd int, off, size int64) (done func(), errno syscall.Errno) {
	if q == nil {
		return func() {}, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if size > q.room() {
		switch {
		case off != AtEnd && replaces(fd, off, size):
			size = 0
		case !q.fits(size):
			return nil, syscall.EDQUOT
		}
	}
	q.reserved += size
	g := q.busy[id]
	if g == nil {
		g = &growth{room: allocated(fd)}
		q.busy[id] = g
	}
	g.writers++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.reserved -= size
		g.writers--
		// A decrease is not subtracted while other writes are in progress: they may have
		// been allowed without room to replace bytes that they now allocate again.
		if now := allocated(fd); now > g.room || g.writers == 0 {
			q.used += now - g.room
			g.room = now
		}
		if g.writers == 0 {
			delete(q.busy, id)
		}
	}, 0
}

// replaces reports whether the file open as fd has no hole in size bytes at off.
func replaces(fd int, off, size int64) bool {
	hole, err := unix.Seek(fd, off, unix.SEEK_HOLE)
	return err == nil && hole-off >= size
}

// Removed is called when a name of obj was removed. A file that may still be open, as the regular
// file open, is charged until it is forgotten. q, open and obj may be nil.
func (q *Quota) Removed(open *Identity, obj *Object) {
	if q == nil || obj == nil {
		return
	}
	size := int64(ObjectCost)
	if !obj.IsDir() {
		if obj.Nlink > 1 {
			q.Release(ObjectCost) // for the name
			return
		}
		size += int64(obj.Blocks) * 512
	}
	if open == nil {
		q.Release(size)
		return
	}
	q.ReleaseLater(*open, size)
}

// ReleaseLater subtracts size bytes when a file, which has no name, is forgotten. q may be nil.
func (q *Quota) ReleaseLater(id Identity, size int64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unlinked[id] = size
}

// Forgotten is called when no node has an inode any more, before its descriptor fd is closed; fd is
// -1 if none is open.
func (q *Quota) Forgotten(id Identity, fd int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size, ok := q.unlinked[id]
	if !ok {
		return
	}
	delete(q.unlinked, id)
	if fd >= 0 {
		size = ObjectCost + allocated(fd)
	}
	q.used -= size
	q.change.Broadcast()
}

// Free returns how many bytes may be added, and the limit: more than that may be, if files that
// were there before are deleted, but a file system has no more free blocks than blocks.
func (q *Quota) Free() (free, limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(max(0, q.room()), q.limit), q.limit
}

// Size returns how many bytes it allows.
func (q *Quota) Size() int64 { return q.limit }
