package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

// A target is the destination of a connection.
type target struct {
	name string // normal form
	port uint16
}

// An inboundConn is a connection from a program inside.
type inboundConn struct {
	net.Conn
	g         *Gateway
	slots     chan struct{}
	holds     atomic.Int32 // of the slot: 1 until Close, and 1 for each dial that a request began
	closeOnce sync.Once
	op        string // of its events
	to        target // zero until it is known
	peeked    []byte // bytes of the connection that were read already
	answered  target // what an answer allows, and no rule; zero: nothing

	// Of connections with HTTP, to find requests that the parser refuses.
	unhandled atomic.Bool // bytes of a request arrived, and the handler was not called
	handled   atomic.Bool // the handler was called once
	late      atomic.Bool // the first read of the connection had no bytes in time
}

// Read returns the peeked bytes, then reads the connection.
func (v *inboundConn) Read(b []byte) (int, error) {
	if len(v.peeked) > 0 {
		n := copy(b, v.peeked)
		v.peeked = v.peeked[n:]
		return n, nil
	}
	n, err := v.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && !v.handled.Load() {
		v.late.Store(true)
	}
	return n, err
}

// Write writes to the connection. It first reports a request that the parser of net/http refuses:
// the parser answers the client, and closes the connection half a second later.
func (v *inboundConn) Write(b []byte) (int, error) {
	v.unparsed()
	return v.Conn.Write(b)
}

// unparsed reports, once, that bytes which should be a request could not be parsed.
func (v *inboundConn) unparsed() {
	if !v.unhandled.Swap(false) {
		return
	}
	reason := egress.ReasonNotHTTP
	switch {
	case v.late.Swap(false):
		reason = egress.ReasonSlow
	case v.to.name == "":
		reason = egress.ReasonProtocol
	}
	v.report(egress.Event{Reason: reason})
}

// Close closes the connection, and releases its slot unless a dial holds the slot.
func (v *inboundConn) Close() error {
	err := v.Conn.Close()
	v.closeOnce.Do(func() {
		v.g.forgetInbound(v)
		v.release()
	})
	return err
}

// hold keeps the slot of the connection until release, and reports false if the slot was released
// already.
func (v *inboundConn) hold() bool {
	for n := v.holds.Load(); n > 0; n = v.holds.Load() {
		if v.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release ends a hold. The last release frees the slot.
func (v *inboundConn) release() {
	if v.holds.Add(-1) == 0 {
		<-v.slots
	}
}

// CloseWrite ends the direction to the program inside.
func (v *inboundConn) CloseWrite() error { return closeWrite(v.Conn) }

// refuse reports an event and closes the connection so that the program notices at once.
func (v *inboundConn) refuse(e egress.Event) {
	v.report(e)
	if tcp, ok := v.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // a reset: it is being closed
	}
	_ = v.Close()
}

// report adds an event of this connection: see event. It returns the event as it is reported.
func (v *inboundConn) report(e egress.Event) egress.Event {
	e = v.event(e)
	v.g.report(e)
	return e
}

// event completes an event of this connection; e has the reason, and what differs from the
// connection's own target.
func (v *inboundConn) event(e egress.Event) egress.Event {
	e.Op = v.op
	if e.Name == "" {
		e.Name = v.to.name
	}
	if e.Port == 0 {
		e.Port = int(v.to.port)
	}
	if e.Remedy == "" {
		e.Remedy = remedy(e)
	}
	e.PID, e.Program = v.g.process(addrPort(v.RemoteAddr()), addrPort(v.LocalAddr()))
	return e
}

// remedy returns the flag that allows the connection that an event refused.
func remedy(e egress.Event) string {
	switch e.Reason {
	case egress.ReasonName, egress.ReasonPort, egress.ReasonLearned, egress.ReasonUnanswered:
		return network.Remedy(e.Name, uint16(e.Port))
	case egress.ReasonNotTLS, egress.ReasonBadTLS, egress.ReasonNoSNI, egress.ReasonSNI, egress.ReasonECH, egress.ReasonNotHTTP, egress.ReasonHost: // not ReasonSlow: a slow client needs no weaker check
		if e.Name != "" {
			return "--no-sni-check " + e.Name
		}
	case egress.ReasonAddress:
		addr, err := netip.ParseAddr(e.Address)
		switch {
		case err != nil || e.Op != egress.OpProxy: // inside, it is the sandbox's own
		case addr.IsLoopback():
			return fmt.Sprintf("--expose %d", e.Port)
		case addr.IsUnspecified() || addr.IsMulticast(): // of no single host
		default:
			return "--add-host NAME:" + e.Address
		}
	}
	return ""
}

// addrPort returns an address of a connection, unmapped; the zero value if it has none.
func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	default:
		if a != nil {
			ap, _ = netip.ParseAddrPort(a.String())
		}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// soon is when what precedes a connection's data must be there.
func (g *Gateway) soon() time.Time { return time.Now().Add(g.options.patience) }
