// Package excerpt keeps a part of a stream of any length, in bounded memory.
package excerpt

// A Ring keeps the last bytes of a stream, by their offset from its start.
// The zero Ring keeps nothing; see NewRing. It is not safe for concurrent use.
type Ring struct {
	limit int
	buf   []byte // the bytes up to end; at most 2*limit, so that it moves seldom
	end   uint64
}

// NewRing returns a Ring that keeps limit bytes.
func NewRing(limit int) *Ring { return &Ring{limit: limit} }

// Start is the offset of the oldest byte kept.
func (r *Ring) Start() uint64 { return r.end - uint64(min(len(r.buf), r.limit)) }

// End is the offset behind the last byte.
func (r *Ring) End() uint64 { return r.end }

// Write adds to the stream; it keeps no part of b.
func (r *Ring) Write(b []byte) {
	r.end += uint64(len(b))
	if len(b) >= r.limit {
		r.buf = append(r.buf[:0], b[len(b)-r.limit:]...)
		return
	}
	if len(r.buf)+len(b) > 2*r.limit {
		keep := r.limit - len(b)
		r.buf = r.buf[:copy(r.buf, r.buf[len(r.buf)-keep:])]
	}
	r.buf = append(r.buf, b...)
}

// Read copies from offset at on, or from the oldest byte if that is later. It
// returns where the copied bytes begin; n is 0 at the end.
func (r *Ring) Read(b []byte, at uint64) (from uint64, n int) {
	from = min(max(at, r.Start()), r.end)
	return from, copy(b, r.buf[len(r.buf)-int(r.end-from):])
}
