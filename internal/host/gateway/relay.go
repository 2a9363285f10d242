package gateway

import (
	"errors"
	"net"
	"sync"

	"wolffia/internal/host/inside"
)

// relay copies both ways until both directions have ended, and closes both connections. An end of
// the data is passed on as such; an error resets both connections. first sends what precedes the
// data from inside, while data to the inside is copied already; its error ends both directions
// too.
func relay(in *inboundConn, out *outboundConn, first func() error) {
	inner, outer := &inside.Side{Conn: in.Conn}, &inside.Side{Conn: out.Conn} // no bytes were read ahead at this point
	pass := func(to, from *inside.Side) {
		if inside.Pass(to, from) != nil {
			abort(in, out)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { pass(inner, outer) })
	if first() != nil {
		abort(in, out)
	} else {
		pass(outer, inner)
	}
	both.Wait()
	_, _ = in.Close(), out.Close()
}

// abort resets and closes both connections, which ends all reading and writing.
func abort(in *inboundConn, out *outboundConn) {
	inside.Reset(in.Conn)
	inside.Reset(out.Conn)
	_, _ = in.Close(), out.Close()
}

// closeWrite ends the sending direction of a connection.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection cannot be half-closed")
	}
	return half.CloseWrite()
}
