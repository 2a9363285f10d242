package shell

// A ring keeps the last bytes of a stream, by their offset from its start.
// The zero ring keeps nothing; see newRing. It is not safe for concurrent use.
type ring struct {
	limit int
	buf   []byte // the bytes up to end; at most 2*limit, so that it moves seldom
	end   uint64 // offset behind the last byte
}

func newRing(limit int) *ring { return &ring{limit: limit} }

// start is the offset of the oldest byte kept.
func (r *ring) start() uint64 { return r.end - uint64(min(len(r.buf), r.limit)) }

func (r *ring) write(b []byte) {
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

// read copies from offset at on, or from the oldest byte if that is later. It
// returns where the copied bytes begin; n is 0 at the end.
func (r *ring) read(b []byte, at uint64) (from uint64, n int) {
	from = min(max(at, r.start()), r.end)
	return from, copy(b, r.buf[len(r.buf)-int(r.end-from):])
}
