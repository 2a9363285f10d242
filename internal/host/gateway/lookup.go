package gateway

import (
	"net/netip"
	"strconv"
	"strings"

	"wolffia/internal/host/egress"
	"wolffia/network"

	"golang.org/x/net/dns/dnsmessage"
)

// lookup decides on a question of DNS. Nothing is forwarded: the answer depends on the policy and
// on earlier names only. The caller reports refused, if it is not nil, before it sends the answer:
// the program may end with that.
func (g *Gateway) lookup(asked string, kind dnsmessage.Type) (r reply, refused *egress.Event) {
	refuse := func(code dnsmessage.RCode, e egress.Event) (reply, *egress.Event) {
		e.Op = egress.OpLookup
		return reply{code: code}, &e
	}
	name, err := network.NormalName(asked)
	policy := g.policy.Load()
	switch {
	case err != nil:
		return refuse(dnsmessage.RCodeNameError, egress.Event{Name: printable(asked), Reason: egress.ReasonBadName})
	case name == "localhost" || strings.HasSuffix(name, ".localhost"): // RFC 6761, 6.3
		return endpoint(kind, netip.AddrFrom4([4]byte{127, 0, 0, 1})), nil
	case !policy.Known(name):
		return refuse(dnsmessage.RCodeNameError, egress.Event{Name: name, Reason: egress.ReasonName, Remedy: network.Remedy(name, 0)})
	}
	entry := g.names.assign(name, policy.Named(name))
	if entry == nil {
		return refuse(dnsmessage.RCodeServerFailure, egress.Event{Reason: egress.ReasonFull})
	}
	if kind == dnsmessage.TypeA {
		g.listenFor(entry)
	}
	return endpoint(kind, entry.addr), nil
}

// endpoint returns the reply for a type of record of a name with an address. For a type without a
// record it replies at once, so that a client continues with the IPv4 address.
func endpoint(kind dnsmessage.Type, addr netip.Addr) reply {
	switch kind {
	case dnsmessage.TypeA:
		return reply{addr: addr}
	case dnsmessage.TypeAAAA, typeHTTPS, typeSVCB:
		return reply{}
	}
	return reply{code: dnsmessage.RCodeRefused}
}

// printable returns what a program inside sent for a name so that people can read it, in bounded
// length.
func printable(name string) string {
	const most = 253
	if len(name) > most {
		name = name[:most]
	}
	return strconv.QuoteToASCII(name)
}
