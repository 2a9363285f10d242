package gateway

import (
	"errors"
	"time"

	"wolffia/internal/host/egress"
)

// alertDenied is a fatal alert of TLS, "access_denied" (RFC 8446, 6.2): the client names it in its
// error.
var alertDenied = []byte{21, 3, 1, 0, 2, 2, 49}

var errRefused = errors.New("refused")

// tunnel relays a connection to its target, after the destination in the connection's data is
// checked. out is the connection to the target, or nil if tunnel must open it.
func (g *Gateway) tunnel(v *inboundConn, out *outboundConn) {
	checks := g.policy.Load().ChecksName(v.to.name)
	var first []byte
	if checks && v.to.port == 443 {
		var ok bool
		if first, ok = g.checkTLS(v); !ok {
			if out != nil {
				_ = out.Close()
			}
			return
		}
	}
	if out == nil {
		var err error
		if out, err = g.dial(g.ctx, v, v.to, v.modeOf(v.to)); err != nil {
			v.refuse(refusalOf(err))
			return
		}
	}
	if !out.mark(checks) {
		abort(v, out)
		return
	}
	switch {
	case !checks:
		relay(v, out, func() error { return flush(v, out, nil) })
	case v.to.port == 443:
		g.relayTLS(v, out, first)
	default:
		relay(v, out, func() error { return g.checkFirst(v, out) })
	}
}

// checkTLS reads and checks what a connection on port 443 begins with, and ends the connection if
// that is refused.
func (g *Gateway) checkTLS(v *inboundConn) (first []byte, ok bool) {
	_ = v.SetReadDeadline(g.soon())
	first, reason := peekTLS(v, v.to.name)
	_ = v.SetReadDeadline(time.Time{})
	switch {
	case reason == "":
		return first, true
	case len(first) == 0 && reason == egress.ReasonBadTLS: // it ended without a byte: a test whether the port is open
		_ = v.Close()
	case reason == egress.ReasonNotTLS || reason == egress.ReasonSlow:
		v.refuse(egress.Event{Reason: reason})
	default:
		v.report(egress.Event{Reason: reason})
		v.alert()
	}
	return nil, false
}

// checkFirst passes on the first bytes of a connection on a port without a protocol of its own,
// checked if they are TLS. Until they arrive, the server may speak.
func (g *Gateway) checkFirst(v *inboundConn, out *outboundConn) error {
	first, reason := peekAny(v, v.to.name, func() { _ = v.SetReadDeadline(g.soon()) })
	_ = v.SetReadDeadline(time.Time{})
	if reason != "" {
		v.report(egress.Event{Reason: reason})
		v.alert()
		return errRefused
	}
	return flush(v, out, first)
}

// flush sends the peeked bytes.
func flush(v *inboundConn, out *outboundConn, first []byte) error {
	first = append(first, v.peeked...)
	v.peeked = nil
	if len(first) == 0 {
		return nil
	}
	_, err := out.Conn.Write(first)
	return err
}

// alert tells a client of TLS that it is refused, and closes the connection.
func (v *inboundConn) alert() {
	_ = v.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = v.Conn.Write(alertDenied)
	_ = v.Close()
}
