package excerpt

// An Excerpt is a head-and-tail buffer: it keeps the beginning and the end of a stream,
// and counts the bytes between them. It is not safe for concurrent use.
type Excerpt struct {
	size  int // maximum of begin
	begin []byte
	end   *Ring
}

// New returns an Excerpt that keeps at most keep bytes: the first keep-tail bytes of the
// stream and the last tail bytes. Precondition: 0 <= tail <= keep.
func New(keep, tail int) *Excerpt {
	return &Excerpt{size: keep - tail, end: NewRing(tail)}
}

// Write appends b, which it does not retain, to the stream. It never fails.
func (x *Excerpt) Write(b []byte) (int, error) {
	n := min(len(b), x.size-len(x.begin))
	x.begin = append(x.begin, b[:n]...)
	x.end.Write(b[n:])
	return len(b), nil
}

// Result returns the bytes that were kept, and the number of bytes that were dropped
// between the beginning and the end. The Excerpt must not be used afterwards.
func (x *Excerpt) Result() (kept []byte, dropped int64) {
	first := x.end.Start()
	n := x.end.End() - first
	kept = append(x.begin, make([]byte, n)...)
	x.end.Read(kept[len(x.begin):], first)
	return kept, int64(first)
}
