package egress

import "time"

// What a program did when an [Event] occurred.
const (
	OpLookup  = "lookup"  // a DNS query
	OpConnect = "connect" // a connection to an address
	OpProxy   = "proxy"   // a request to the HTTP or SOCKS5 proxy
)

// Reasons of events. The set is fixed; "the name leads to a KIND address" has the kinds of
// network.Forbidden.
const (
	ReasonName      = "no rule allows the name"
	ReasonPort      = "no rule allows the port"
	ReasonBadName   = "not a host name"
	ReasonAddress   = "an address without a name"
	ReasonFull      = "too many names: 65536 have addresses"
	ReasonBusy      = "1024 connections at once: more wait"
	ReasonRate      = "too many new names below a wildcard"
	ReasonSlow      = "nothing to check within 10 s"
	ReasonNotTLS    = "not TLS, on port 443"
	ReasonBadTLS    = "the TLS handshake is malformed or larger than 32 KiB"
	ReasonNoSNI     = "the TLS handshake has no server name"
	ReasonSNI       = "the TLS handshake is for another server name"
	ReasonECH       = "the TLS handshake hides its server name (ECH)"
	ReasonNotHTTP   = "not an HTTP request, on port 80"
	ReasonHost      = "the HTTP request is for another host"
	ReasonMethod    = "the HTTP method is not possible here"
	ReasonProtocol  = "not a request that the proxy knows"
	ReasonResolve   = "the host cannot resolve the name"
	ReasonUnreached = "the host cannot connect"
	ReasonOwn       = "the name leads to an address of the host itself"
	ReasonForbidden = "the name leads to a %s address"
	ReasonHeader    = "the file of the header cannot be used"
	ReasonTaken     = "a program inside listens on the port at all addresses: it has to listen at 127.0.0.1"
	ReasonUpstream  = "the upstream proxy does not answer"
	ReasonSystem    = "the gateway lacks descriptors or memory"
)

// ReasonUpstreamRefuses: see [network.Policy].Upstream. Many proxies connect to port 443 only.
const ReasonUpstreamRefuses = "the upstream proxy does not connect to the name and port"

// ReasonLearned is the reason of an event that refused nothing: the policy learns, and no
// rule of it allows the connection.
const ReasonLearned = "no rule allows it; allowed to learn"

// Reasons of events about what was asked for: see [Config].Ask. The first refused nothing.
const (
	ReasonAnswered   = "no rule allows it; allowed by an answer"
	ReasonUnanswered = "no rule allows it, and no answer has"
)

// An Event is something that the gateway refused, or could not do. A program inside can cause any
// number of them, all different.
type Event struct {
	Time time.Time
	Op   string // OpLookup, OpConnect or OpProxy
	Name string // normal form, or quoted if it is not a name; empty if not known
	// without port; of what was dialled or what the name leads to, if that is the reason
	Address string
	Port    int    // 0 for a lookup
	PID     int    // inside; 0: not known
	Program string // empty: not known
	Reason  string // one of the Reason constants
	Remedy  string // the flag that allows it; empty if none does
	Wide    bool   // of what is asked for: the domain of Name may be allowed as a whole
}
