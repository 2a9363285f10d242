package inside

import (
	"errors"
	"io"
	"net"
)

// A bigConn is a connection over a loopback with big packets. It copies the bytes that go inside
// through a buffer: the kernel then makes few packets of few pieces of memory. That costs less in
// all than splice(2) saves here, because splice passes the pieces on as they came. The bytes that
// come from inside are in such packets already, and package net splices them.
type bigConn struct{ *net.TCPConn }

// ReadFrom implements [io.ReaderFrom].
func (c bigConn) ReadFrom(r io.Reader) (int64, error) { return carry(c.TCPConn, r) }

const (
	buffer    = 32 << 10
	bigBuffer = 256 << 10
)

// bigBuffers has one for each bigBuffer in use: a bound on memory, not on connections.
var bigBuffers = make(chan struct{}, 64)

// carry copies until the end of r. If that fills the buffer there will be a bigger one, while
// there are not too many of these.
func carry(w io.Writer, r io.Reader) (written int64, err error) {
	b := make([]byte, buffer)
	defer func() {
		if len(b) == bigBuffer {
			<-bigBuffers
		}
	}()
	for {
		n, rerr := r.Read(b)
		if n > 0 {
			m, err := w.Write(b[:n])
			written += int64(m)
			if err != nil {
				return written, err
			}
		}
		if errors.Is(rerr, io.EOF) {
			return written, nil
		} else if rerr != nil {
			return written, rerr
		}
		switch {
		case n == buffer && len(b) == buffer:
			select {
			case bigBuffers <- struct{}{}:
				b = make([]byte, bigBuffer)
			default:
			}
		case n < buffer/2 && len(b) == bigBuffer: // the next bytes may be long in coming
			b = make([]byte, buffer)
			<-bigBuffers
		}
	}
}
