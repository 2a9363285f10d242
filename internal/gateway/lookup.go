package gateway

import (
	"net/netip"
	"strconv"
	"strings"

	"wolffia/internal/egress"
	"wolffia/network"

	"golang.org/x/net/dns/dnsmessage"
)

// lookup decides on a question of DNS. Nothing is forwarded: the answer depends on the policy
// and on earlier names only. from is the program's end of the socket, at the gateway's.
func (g *Gateway) lookup(from, at netip.AddrPort, asked string, kind dnsmessage.Type) reply {
	refuse := func(e egress.Event) {
		e.Op = egress.OpLookup
		e.PID, e.Program = g.process(from, at)
		g.report(e)
	}
	name, err := network.NormalName(asked)
	policy := g.policy.Load()
	switch {
	case err != nil:
		refuse(egress.Event{Name: printable(asked), Reason: egress.ReasonBadName})
		return reply{code: dnsmessage.RCodeNameError}
	case name == "localhost" || strings.HasSuffix(name, ".localhost"): // RFC 6761, 6.3
		return endpoint(kind, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case !policy.Known(name):
		refuse(egress.Event{Name: name, Reason: egress.ReasonName, Remedy: network.Remedy(name, 0)})
		return reply{code: dnsmessage.RCodeNameError}
	}
	page := g.book.assign(name, policy.Named(name))
	if page == nil {
		refuse(egress.Event{Reason: egress.ReasonFull})
		return reply{code: dnsmessage.RCodeServerFailure}
	}
	if kind == dnsmessage.TypeA {
		g.meet(page)
	}
	return endpoint(kind, page.addr)
}

// endpoint returns the reply of a type of record for a name with an address: without a record, at once,
// where a client would go on to the address of IPv4.
func endpoint(kind dnsmessage.Type, addr netip.Addr) reply {
	switch kind {
	case dnsmessage.TypeA:
		return reply{addr: addr}
	case dnsmessage.TypeAAAA, typeHTTPS, typeSVCB:
		return reply{}
	}
	return reply{code: dnsmessage.RCodeRefused}
}

// printable returns what a program inside sent for a name so that people can read it, in bounded length.
func printable(name string) string {
	const most = 253
	if len(name) > most {
		name = name[:most]
	}
	return strconv.QuoteToASCII(name)
}
