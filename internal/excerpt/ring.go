// Package excerpt keeps one or both ends of a stream of any length in bounded memory.
package excerpt

import "slices"

// A Ring keeps the last bytes of a stream and addresses them by their offset from the
// start of the stream. The zero Ring keeps nothing. It is not safe for concurrent use.
type Ring struct {
	limit int
	buf   []byte // the bytes up to end; up to 2*limit, so that they are seldom moved
	end   uint64
}

// NewRing returns a Ring that keeps limit bytes.
func NewRing(limit int) *Ring { return &Ring{limit: limit} }

// Start returns the offset of the oldest byte kept.
func (r *Ring) Start() uint64 { return r.end - uint64(min(len(r.buf), r.limit)) }

// End returns the offset after the last byte: the length of the stream.
func (r *Ring) End() uint64 { return r.end }

// Write appends b, which it does not retain, to the stream.
func (r *Ring) Write(b []byte) {
	r.end += uint64(len(b))
	if len(b) >= r.limit {
		r.buf = append(r.buf[:0], b[len(b)-r.limit:]...)
		return
	}
	if len(r.buf)-r.limit+len(b) > r.limit { // twice the limit may be more than an int can be
		keep := r.limit - len(b)
		r.buf = r.buf[:copy(r.buf, r.buf[len(r.buf)-keep:])]
	}
	r.buf = append(r.buf, b...)
}

// Read copies bytes from offset at on, or from the oldest byte kept if that is later,
// into b. It returns the offset of the first copied byte and their number, which is 0 at
// the end of the stream.
func (r *Ring) Read(b []byte, at uint64) (from uint64, n int) {
	from = min(max(at, r.Start()), r.end)
	return from, copy(b, r.buf[len(r.buf)-int(r.end-from):])
}

// Trim gives back the memory that holds nothing that is kept.
func (r *Ring) Trim() { r.buf = slices.Clone(r.buf[len(r.buf)-min(len(r.buf), r.limit):]) }

// Drop drops what is kept. Offsets stay as they are.
func (r *Ring) Drop() { r.buf = nil }

// Clone returns a copy of what is kept, which later writes do not change.
func (r *Ring) Clone() *Ring {
	return &Ring{limit: r.limit, end: r.end, buf: slices.Clone(r.buf[len(r.buf)-min(len(r.buf), r.limit):])}
}
