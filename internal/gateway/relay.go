package gateway

import (
	"errors"
	"io"
	"net"
	"sync"
)

// relay copies both ways until both directions have ended, and closes both connections. An end of
// the data is passed on as such; an error ends both directions. first sends what precedes the data from inside,
// while data to the inside is copied already; its error ends both directions too.
func relay(in *visitor, out *outlet, first func() error) {
	var both sync.WaitGroup
	both.Go(func() { pipe(in, in.Conn, out, out.Conn) })
	if first() != nil {
		abort(in, out)
	} else {
		pipe(out, out.Conn, in, in.Conn)
	}
	both.Wait()
	_, _ = in.Close(), out.Close()
}

// pipe copies one direction. dst and src are what dstConn and srcConn are closed by. The copy is
// between the connections themselves, so that the kernel moves the bytes (splice(2)) if both
// are TCP sockets; no bytes were read ahead at this point.
func pipe(dst io.Closer, dstConn net.Conn, src io.Closer, srcConn net.Conn) {
	if _, err := io.Copy(dstConn, srcConn); err != nil {
		abort(dst, src)
		return
	}
	if err := closeWrite(dstConn); err != nil {
		abort(dst, src)
	}
}

// abort closes connections, which ends all reading and writing.
func abort(all ...io.Closer) {
	for _, c := range all {
		_ = c.Close()
	}
}

// closeWrite ends the sending direction of a connection.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection cannot be half-closed")
	}
	return half.CloseWrite()
}
