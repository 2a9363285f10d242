package fusefs

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// objectCost is what each file, directory or link is charged besides its
// content, so that a great many empty ones are not free.
const objectCost = 4096

// A quota bounds how much what is done through the tree adds to the disk: room
// that is allocated, not sizes. What is deleted or cut off is taken off again,
// also if it was there before. The methods are safe for concurrent use.
type quota struct {
	limit int64

	mu       sync.Mutex
	change   *sync.Cond           // something was taken off; uses mu
	used     int64                // may be negative; guarded by mu
	reserved int64                // for what is under way; guarded by mu
	busy     map[identity]*growth // files with something under way; guarded by mu
	unlinked map[identity]int64   // without a name, to be taken off when they are closed; guarded by mu
}

// A growth is that of one file.
type growth struct {
	writers int
	room    int64 // allocated when last looked at
}

func newQuota(limit int64) *quota {
	q := &quota{limit: limit, busy: map[identity]*growth{}, unlinked: map[identity]int64{}}
	q.change = sync.NewCond(&q.mu)
	return q
}

// closeDelay is how long the kernel may take to say that a file without a name was
// closed. It says so a little after rm(1) has returned.
const closeDelay = 100 * time.Millisecond

// room is how many bytes may be added, negative if there are too many already. Nothing
// is added to what a program asks for, which can be as much as an int64 holds. q.mu is
// held.
func (q *quota) room() int64 { return q.limit - q.used - q.reserved }

// fits reports whether there is room for n bytes, and waits for a moment if
// there may be soon. q.mu is held.
func (q *quota) fits(n int64) bool {
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

// allocated returns how many bytes of the disk the open file fd takes.
func allocated(fd int) int64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Blocks * 512 // stat(2)
}

// take charges n bytes, if there is room for them. A nil quota has room for
// all.
func (q *quota) take(n int64) syscall.Errno {
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

// give takes n bytes off.
func (q *quota) give(n int64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
}

// atEnd is the offset of what is appended: the true end of the file. The one that
// the kernel sends is what it believes of one name, and may lie before data that was
// written by another name.
const atEnd = -1

// grow is called before up to size bytes at off, or atEnd, are written to the file n,
// which is open as fd. The function it returns is called afterwards, and
// charges what was in fact allocated. What only replaces what is there is
// allowed without room; what is appended replaces nothing.
func (q *quota) grow(n *node, fd int, off, size int64) (done func(), errno syscall.Errno) {
	if q == nil {
		return func() {}, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if size > q.room() {
		switch {
		case off != atEnd && replaces(fd, off, size):
			size = 0
		case !q.fits(size):
			return nil, syscall.EDQUOT
		}
	}
	q.reserved += size
	id := n.ident()
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
		// What others are about to replace is not taken off while they do: they were
		// let pass without room, and may allocate it again.
		if now := allocated(fd); now > g.room || g.writers == 0 {
			q.used += now - g.room
			g.room = now
		}
		if g.writers == 0 {
			delete(q.busy, id)
		}
	}, 0
}

// replaces reports whether size bytes at off of the file open as fd are all there.
func replaces(fd int, off, size int64) bool {
	hole, err := unix.Seek(fd, off, unix.SEEK_HOLE)
	return err == nil && hole-off >= size
}

// removed is called when a name of obj was removed, which was n's; n may be
// nil. What is open still takes its room.
func (q *quota) removed(n *node, obj *object) {
	if q == nil || obj == nil {
		return
	}
	size := int64(objectCost)
	if !obj.isDir() {
		if obj.Nlink > 1 {
			q.give(objectCost) // the name's
			return
		}
		size += int64(obj.Blocks) * 512
	}
	if n == nil || !n.isRegular() {
		q.give(size)
		return
	}
	q.releaseLater(n, size)
}

// releaseLater has size bytes taken off when n, which has no name, is forgotten.
func (q *quota) releaseLater(n *node, size int64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unlinked[n.ident()] = size
}

// forgotten is called when n goes out of the table, and no other node of the same file is
// in it, before fd, which may be open for it, is closed; fd is -1 if none is.
func (q *quota) forgotten(n *node, fd int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size, ok := q.unlinked[n.ident()]
	if !ok {
		return
	}
	delete(q.unlinked, n.ident())
	if fd >= 0 {
		size = objectCost + allocated(fd)
	}
	q.used -= size
	q.change.Broadcast()
}

// free returns how much there is room for, and the limit.
func (q *quota) free() (free, limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, q.room()), q.limit
}
