package network

import (
	"net"
	"net/netip"
	"strings"
)

// A special is a range of addresses with its name, for people.
type special struct {
	prefix netip.Prefix
	kind   string
}

// specials are the ranges that are not addresses of public hosts, in the order of the
// search: the metadata services of clouds have their own name.
var specials = []special{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"}, // a public address, but of each machine's host in Azure
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-private"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "special"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "special"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "special"}, // Teredo, benchmark, ORCHID
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	global    = netip.MustParsePrefix("2000::/3")
)

// Forbidden returns the kind of an address that a name must not lead to, such as "loopback" or
// "private", and "" for one of a public host. An address of IPv6 that embeds one of IPv4 (mapped,
// NAT64, 6to4) has the kind of that. The kinds are a small fixed set. Whether an address is one
// of the host's own is not known here.
func Forbidden(addr netip.Addr) string {
	if !addr.IsValid() || addr.Zone() != "" {
		return "special"
	}
	addr = addr.Unmap()
	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(addr):
		addr = netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	for _, s := range specials {
		if s.prefix.Contains(addr) {
			return s.kind
		}
	}
	if addr.Is6() && !global.Contains(addr) {
		return "special"
	}
	return ""
}

// IsPrivate reports whether a kind of address that [Forbidden] returns is one that the names of
// [Policy.Private] may lead to.
func IsPrivate(kind string) bool { return kind == "private" || kind == "carrier-private" }

// ForbiddenHost is Forbidden for HOST or HOST:PORT, as in the URL of a request. It returns "" for
// a name, except for localhost: where a name leads to is not known before it is resolved.
func ForbiddenHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "loopback"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return Forbidden(addr)
}
