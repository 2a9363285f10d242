package gateway

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

// parseTarget returns the target that "HOST[:PORT]" names: a name in any form, or the address
// inside of one. For any other text it returns a reason, and the host or address for people as the
// target's name.
func (g *Gateway) parseTarget(text string, port uint16) (target, string) {
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return target{name: printable(text)}, egress.ReasonBadName
		}
		host, port = h, uint16(n)
	}
	return g.nameTarget(host, port)
}

// nameTarget returns the target of a host and a port, as parseTarget.
func (g *Gateway) nameTarget(host string, port uint16) (target, string) {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return g.addrTarget(addr, port)
	}
	name, err := network.NormalName(host)
	if err != nil {
		return target{printable(host), port}, egress.ReasonBadName
	}
	return target{name, port}, ""
}

// addrTarget returns the target of an address and a port, as parseTarget.
func (g *Gateway) addrTarget(addr netip.Addr, port uint16) (target, string) {
	if entry := g.names.find(addr); entry != nil {
		return target{entry.name, port}, ""
	}
	return target{addr.Unmap().String(), port}, egress.ReasonAddress
}

// authority returns a target as HTTP writes it, without the default port.
func authority(to target, port uint16) string {
	if to.port == port {
		return to.name
	}
	return net.JoinHostPort(to.name, portText(to.port))
}

// eventOf returns the event of a request for what parseTarget refused.
func eventOf(to target, reason string) egress.Event {
	if reason == egress.ReasonAddress {
		return egress.Event{Address: to.name, Port: int(to.port), Reason: reason}
	}
	return egress.Event{Name: to.name, Port: int(to.port), Reason: reason}
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }
