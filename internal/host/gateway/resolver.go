package gateway

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"

	"wolffia/internal/host/egress"

	"golang.org/x/net/dns/dnsmessage"
)

// maxDNSConns is how many connections of DNS over TCP are served at once.
const maxDNSConns = 64

// serveDNS answers queries over UDP to at until the socket is closed. One is in the works at a
// time: an answer takes microseconds, and what does not fit in the socket's buffer is dropped. A
// refusal waits for the search for its process elsewhere.
func (g *Gateway) serveDNS(socket net.PacketConn, at netip.AddrPort) {
	buf := make([]byte, 4096) // a query is one name: a longer packet is malformed
	pause := pause{done: g.ctx.Done()}
	var refused *egress.Event
	decide := func(name string, kind dnsmessage.Type) (r reply) {
		r, refused = g.lookup(name, kind)
		return r
	}
	for {
		n, from, err := socket.ReadFrom(buf)
		if err != nil {
			if g.ctx.Err() != nil || closed(err) || !pause.wait() {
				return
			}
			continue
		}
		pause.reset()
		refused = nil
		message := answer(buf[:n], decide)
		send := func() {
			if message != nil {
				_, _ = socket.WriteTo(message, from) // the client asks again
			}
		}
		switch e := refused; {
		case e == nil:
			send()
		case !g.maySearch():
			g.report(*e)
			send()
		default:
			g.running.Go(func() {
				e.PID, e.Program = g.search(addrPort(from), at)
				g.report(*e)
				send()
			})
		}
	}
}

// serveDNSConn answers queries over TCP (RFC 1035, 4.2.2), until the client ends or is slow.
func (g *Gateway) serveDNSConn(v *inboundConn) {
	defer v.Close()
	from, at := addrPort(v.RemoteAddr()), addrPort(v.LocalAddr())
	decide := func(name string, kind dnsmessage.Type) reply {
		r, refused := g.lookup(name, kind)
		if refused != nil {
			refused.PID, refused.Program = g.process(from, at)
			g.report(*refused)
		}
		return r
	}
	var buf []byte
	for {
		if v.SetDeadline(g.soon()) != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(v, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(v, buf[:n]); err != nil {
			return
		}
		message := answer(buf[:n], decide)
		if message == nil {
			return
		}
		if _, err := v.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)); err != nil {
			return
		}
	}
}
