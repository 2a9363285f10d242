package gateway

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"wolffia/internal/host/egress"
)

// Numbers of SOCKS5 (RFC 1928).
const (
	socksVersion   = 5
	socksNoAuth    = 0
	socksNoMethod  = 0xff
	socksConnect   = 1
	socksIPv4      = 1
	socksName      = 3
	socksIPv6      = 4
	socksGranted   = 0
	socksFailure   = 1
	socksDenied    = 2
	socksHost      = 4
	socksRefused   = 5
	socksCommand   = 7
	socksAddress   = 8
	socksAnswerLen = 10
)

// errSOCKS is the error of a connection that does not speak SOCKS5.
var errSOCKS = errors.New("not SOCKS5")

// serveSOCKS serves a connection to the SOCKS5 proxy.
func (g *Gateway) serveSOCKS(v *inboundConn) {
	v.op = egress.OpProxy
	_ = v.SetDeadline(g.soon())
	command, to, reason, err := g.readSOCKS(v)
	switch {
	case errors.Is(err, errSOCKS):
		v.refuse(egress.Event{Reason: egress.ReasonProtocol})
		return
	case isTimeout(err):
		v.refuse(egress.Event{Reason: egress.ReasonSlow})
		return
	case err != nil:
		_ = v.Close()
		return
	case command != socksConnect:
		reason = egress.ReasonProtocol
	}
	if reason == "" {
		_ = v.SetDeadline(time.Time{})
		reason = v.permitAhead(to)
	}
	event := eventOf(to, reason)
	var out *outboundConn
	if event.Reason == "" {
		if out, err = g.reach(v, to); err != nil {
			event = refusalOf(err)
		}
	}
	if event.Reason != "" {
		v.report(event)
		_ = v.SetWriteDeadline(g.soon()) // the attempt to connect may have taken longer than the first
		_, _ = v.Conn.Write(socksAnswer(socksCode(event.Reason, command)))
		_ = v.Close()
		return
	}
	_ = v.SetDeadline(time.Time{})
	v.to = to
	g.answered(v, out, socksAnswer(socksGranted))
}

// readSOCKS reads the greeting and the request; reason is that of parseTarget.
func (g *Gateway) readSOCKS(v *inboundConn) (command byte, to target, reason string, err error) {
	var b [255]byte
	if _, err := io.ReadFull(v, b[:2]); err != nil {
		return 0, to, "", err
	}
	if b[0] != socksVersion {
		return 0, to, "", errSOCKS
	}
	methods := b[:b[1]]
	if _, err := io.ReadFull(v, methods); err != nil {
		return 0, to, "", err
	}
	method := byte(socksNoMethod)
	for _, m := range methods {
		if m == socksNoAuth {
			method = socksNoAuth
		}
	}
	if _, err := v.Conn.Write([]byte{socksVersion, method}); err != nil {
		return 0, to, "", err
	}
	if method == socksNoMethod {
		return 0, to, "", errSOCKS
	}
	if _, err := io.ReadFull(v, b[:4]); err != nil {
		return 0, to, "", err
	}
	if b[0] != socksVersion {
		return 0, to, "", errSOCKS
	}
	command = b[1]
	to, reason, err = g.readSOCKSTarget(v, b[3])
	return command, to, reason, err
}

// readSOCKSTarget reads an address of a type, and a port.
func (g *Gateway) readSOCKSTarget(v *inboundConn, kind byte) (to target, reason string, err error) {
	var b [256]byte
	size := 0
	switch kind {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		if _, err := io.ReadFull(v, b[:1]); err != nil {
			return to, "", err
		}
		size = int(b[0])
	default:
		return to, "", errSOCKS
	}
	var port [2]byte
	if _, err := io.ReadFull(v, b[:size]); err != nil {
		return to, "", err
	}
	if _, err := io.ReadFull(v, port[:]); err != nil {
		return to, "", err
	}
	n := binary.BigEndian.Uint16(port[:])
	if kind == socksName {
		to, reason = g.nameTarget(string(b[:size]), n)
		return to, reason, nil
	}
	addr, _ := netip.AddrFromSlice(b[:size])
	to, reason = g.addrTarget(addr, n)
	return to, reason, nil
}

// socksCode returns the code of SOCKS5 for a reason.
func socksCode(reason string, command byte) byte {
	switch {
	case command != socksConnect:
		return socksCommand
	case reason == egress.ReasonResolve:
		return socksHost
	case reason == egress.ReasonUnreached:
		return socksRefused
	case reason == egress.ReasonSystem || reason == egress.ReasonFull:
		return socksFailure
	case reason == egress.ReasonBadName:
		return socksAddress
	}
	return socksDenied
}

// socksAnswer returns the answer to a request; the address in it is not used by clients.
func socksAnswer(code byte) []byte {
	answer := make([]byte, socksAnswerLen)
	answer[0], answer[1], answer[3] = socksVersion, code, socksIPv4
	return answer
}

// isTimeout reports whether an error is that of a deadline.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
