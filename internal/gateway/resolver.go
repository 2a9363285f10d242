package gateway

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// maxDNSConns is how many connections of DNS over TCP are served at once.
const maxDNSConns = 64

// serveDNS answers queries over UDP to at until the socket is closed. One is in the works at a time:
// an answer takes microseconds, and what does not fit in the socket's buffer is dropped.
func (g *Gateway) serveDNS(socket net.PacketConn, at netip.AddrPort) {
	buf := make([]byte, 4096) // a query is one name: what is longer is malformed
	pause := pause{done: g.ctx.Done()}
	decide := func(from netip.AddrPort) func(string, dnsmessage.Type) reply {
		return func(name string, kind dnsmessage.Type) reply { return g.lookup(from, at, name, kind) }
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
		if message := answer(buf[:n], decide(addrPort(from))); message != nil {
			_, _ = socket.WriteTo(message, from) // the client asks again
		}
	}
}

// serveDNSConn answers queries over TCP (RFC 1035, 4.2.2), until the client ends or is slow.
func (g *Gateway) serveDNSConn(v *visitor) {
	defer v.Close()
	from, at := addrPort(v.RemoteAddr()), addrPort(v.LocalAddr())
	decide := func(name string, kind dnsmessage.Type) reply { return g.lookup(from, at, name, kind) }
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
