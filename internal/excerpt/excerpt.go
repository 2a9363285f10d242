package excerpt

// An Excerpt keeps the beginning of a stream and its end, and counts what is
// between them. It is not safe for concurrent use.
type Excerpt struct {
	size  int // of the beginning at most
	begin []byte
	end   *Ring
}

// New returns an Excerpt of keep bytes, of which tail are the stream's last.
// Precondition: 0 <= tail <= keep.
func New(keep, tail int) *Excerpt {
	return &Excerpt{size: keep - tail, end: NewRing(tail)}
}

// Write adds to the stream; it keeps no part of b.
func (x *Excerpt) Write(b []byte) (int, error) {
	n := min(len(b), x.size-len(x.begin))
	x.begin = append(x.begin, b[:n]...)
	x.end.Write(b[n:])
	return len(b), nil
}

// Result is what was kept, and how many bytes are missing between the
// beginning and the end. The Excerpt is of no use afterwards.
func (x *Excerpt) Result() (kept []byte, dropped int64) {
	first := x.end.Start()
	n := x.end.End() - first
	kept = append(x.begin, make([]byte, n)...)
	x.end.Read(kept[len(x.begin):], first)
	return kept, int64(first)
}
