package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// NetWindow is the credit that each stream of a network channel starts with, in bytes. It
// is less than [Window]: there can be many such channels, and each end may hold as much.
const NetWindow = 256 << 10

// A NetOp is what a [NetRequest] asks for.
type NetOp uint8

// The operations. The zero NetOp is invalid.
const (
	_ NetOp = iota
	// NetDial connects to Address by TCP.
	NetDial
	// NetListen listens at Address by TCP or, if it has a Path, on a new unix socket, until its
	// channel is killed.
	NetListen
	// NetAccept becomes the next connection to a listener.
	NetAccept
	// NetPacket sends and receives datagrams at Address by UDP: see [AppendDatagram].
	NetPacket
	// NetPassFD connects to the unix socket (SOCK_SEQPACKET) at Path, until its channel is killed.
	// The host asks for sockets over that socket, receives their descriptors, and carries their
	// bytes itself. Started answers when the guest is connected. See [FDRequest].
	NetPassFD

	netOpEnd
)

// A NetRequest asks for a socket. Started answers it when it is connected, listens or is bound,
// with the addresses of [AppendAddresses]; of a unix socket they are zero. The bytes of a
// connection are Stdin and Stdout. StdinClose ends the direction to the socket, and StdoutEOF is
// the end of the other. Kill sends the queued bytes, for NetLingerMS at most, and closes the
// socket; after a Signal it drops them, and resets the connection.
type NetRequest struct {
	Op      NetOp
	Address netip.AddrPort // NetDial, NetListen, NetPacket
	Path    string         // NetListen: absolute; empty for TCP. NetPassFD: absolute
	// Listener is the number of a listener, which the host chooses: NetListen, NetAccept.
	Listener uint64
}

// NetLingerMS is how long PID 1 tries to send the queued bytes of a closed socket, in
// milliseconds.
const NetLingerMS = 10_000

// appendTo appends the request as bytes: see docs/wire.md.
func (n *NetRequest) appendTo(b []byte) []byte {
	b = append(b, byte(n.Op))
	b = appendAddress(b, n.Address)
	b = appendString(b, n.Path)
	return binary.AppendUvarint(b, n.Listener)
}

func (p *parser) network() *NetRequest {
	if len(p.rest) == 0 {
		p.bad = true
		return nil
	}
	n := &NetRequest{Op: NetOp(p.rest[0])}
	p.rest = p.rest[1:]
	n.Address = p.address()
	n.Path = p.text()
	n.Listener = p.number()
	switch {
	case n.Op == 0 || n.Op >= netOpEnd,
		(n.Op == NetDial || n.Op == NetPacket) && !n.Address.IsValid(),
		n.Op == NetListen && n.Address.IsValid() == (n.Path != ""),
		n.Op == NetPassFD && (n.Path == "" || n.Address.IsValid()):
		p.bad = true
	}
	return n
}

// NetOpOf returns the operation of a start request for a socket, or 0 for another request. It
// looks at the beginning only: ParseStart may refuse the request all the same.
func NetOpOf(start []byte) NetOp {
	if len(start) < 2 || start[0] != flagNetwork {
		return 0
	}
	return NetOp(start[1])
}

// appendAddress appends port u16 LE, length u8 and so many bytes: 0, 4 or 16.
func appendAddress(b []byte, a netip.AddrPort) []byte {
	ip := a.Addr().Unmap().AsSlice()
	b = binary.LittleEndian.AppendUint16(b, a.Port())
	return append(append(b, byte(len(ip))), ip...)
}

// address takes what appendAddress has appended off the front.
func (p *parser) address() netip.AddrPort {
	if len(p.rest) < 3 {
		p.bad, p.rest = true, nil
		return netip.AddrPort{}
	}
	port, n := binary.LittleEndian.Uint16(p.rest), int(p.rest[2])
	p.rest = p.rest[3:]
	if n == 0 {
		p.bad = p.bad || port != 0
		return netip.AddrPort{}
	}
	if n > len(p.rest) {
		p.bad, p.rest = true, nil
		return netip.AddrPort{}
	}
	ip, ok := netip.AddrFromSlice(p.rest[:n])
	p.rest = p.rest[n:]
	p.bad = p.bad || !ok
	return netip.AddrPortFrom(ip.Unmap(), port)
}

// AppendAddresses appends the payload of the [Started] frame of a network channel: the
// address of the socket, and that of its peer.
func AppendAddresses(b []byte, local, peer netip.AddrPort) []byte {
	return appendAddress(appendAddress(b, local), peer)
}

// ParseAddresses reads what AppendAddresses has appended.
func ParseAddresses(b []byte) (local, peer netip.AddrPort, err error) {
	p := parser{rest: b}
	local, peer = p.address(), p.address()
	if p.bad || len(p.rest) > 0 {
		return netip.AddrPort{}, netip.AddrPort{}, fmt.Errorf("%w: addresses of a socket", ErrProtocol)
	}
	return local, peer, nil
}

// DatagramHeader is the most that AppendDatagram puts before the bytes of a datagram.
const DatagramHeader = 3 + 16

// AppendDatagram appends the head of a datagram to or from a peer: its bytes follow. A
// datagram is one Stdin or Stdout frame of a [NetPacket] channel.
func AppendDatagram(b []byte, peer netip.AddrPort) []byte { return appendAddress(b, peer) }

// ParseDatagram returns a datagram's peer and its bytes, which are a part of b.
func ParseDatagram(b []byte) (peer netip.AddrPort, data []byte, err error) {
	p := parser{rest: b}
	peer = p.address()
	if p.bad || !peer.IsValid() {
		return netip.AddrPort{}, nil, fmt.Errorf("%w: datagram", ErrProtocol)
	}
	return peer, p.rest, nil
}

// FDRequest returns the packet that asks for a socket over the unix socket of [NetPassFD]. kind
// is a rawsock.Kind. The answer is one packet: a zero byte with the socket's descriptor
// (SCM_RIGHTS in unix(7)), or JSON of a [Failure].
func FDRequest(kind uint8, at netip.AddrPort) []byte { return appendAddress([]byte{kind}, at) }

// MaxFDPacket bounds the packets of NetPassFD, in bytes.
const MaxFDPacket = 4 << 10

// ParseFDRequest reads what FDRequest returns. The kind may be any.
func ParseFDRequest(b []byte) (kind uint8, at netip.AddrPort, err error) {
	if len(b) > 0 {
		p := parser{rest: b[1:]}
		if at = p.address(); !p.bad && len(p.rest) == 0 && at.IsValid() {
			return b[0], at, nil
		}
	}
	return 0, netip.AddrPort{}, fmt.Errorf("%w: request for a descriptor", ErrProtocol)
}
