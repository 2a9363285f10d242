package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/network"

	"golang.org/x/time/rate"
)

// Addresses inside, where the gateway's own services are.
var (
	AddrDNS   = netip.MustParseAddrPort("127.64.0.1:53")   // UDP and TCP
	AddrHTTP  = netip.MustParseAddrPort("127.64.0.1:3128") // HTTP proxy
	AddrSOCKS = netip.MustParseAddrPort("127.64.0.1:1080") // SOCKS5 proxy

	// resolvers are the addresses of DNS. The first is where programs ask that find no
	// resolv.conf(5), as in a root directory without one.
	resolvers = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53"), AddrDNS}
)

// nothing is the policy that allows nothing.
var nothing = new(network.Compiled)

// Options are what a gateway needs.
type Options struct {
	egress.Config

	// Lookup returns the addresses of a name, for the host; nil: the host's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address, on the host; nil: a net.Dialer. The connections have a method
	// CloseWrite.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// DialProxy connects to the proxy of the policy, HOST:PORT, as Dial; nil: a net.Dialer.
	DialProxy func(ctx context.Context, at string) (net.Conn, error)
	// Roots are the authorities that sign for the hosts of headers; nil: the host's.
	Roots *x509.CertPool

	own      func() ([]netip.Addr, error) // addresses of the host; nil: of its interfaces
	patience time.Duration                // for what precedes a connection's data; 0: the constant
}

// A Gateway is the network of one sandbox. It is safe for concurrent use. Close ends it.
type Gateway struct {
	options Options
	ctx     context.Context // ends with the gateway
	cancel  context.CancelFunc
	running sync.WaitGroup
	policy  atomic.Pointer[network.Compiled]
	names   addrPool
	lookups *rate.Limiter // of names that the program inside chose
	owners  *rate.Limiter // of searches for processes
	slots   chan struct{} // one for each connection
	web     *web

	searching sync.Mutex // held while a process is searched for

	change        sync.Mutex              // held while the policy changes, or the gateway ends
	listeners     map[uint16]net.Listener // at all addresses, of ports without nameListeners
	nameListeners nameListeners
	fixed         []interface{ Close() error } // of the services

	mu       sync.Mutex
	inbound  map[*inboundConn]struct{}
	outbound map[*outboundConn]struct{}
	reached  map[target]struct{} // at most maxReached
	// bytes that closed connections to the outside have carried
	sent, received int64
}

// Filter is an [egress.Start].
func Filter(ctx context.Context, c *egress.Config) (egress.Filter, error) {
	g, err := Start(ctx, Options{Config: *c})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Start opens all listeners inside and serves until Close, or until ctx ends: then Close is
// still to be called. An error names the address that cannot be listened on.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	if o.Policy == nil {
		o.Policy = nothing
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // absolute: no search list
		}
	}
	if o.Dial == nil {
		dialer := &net.Dialer{}
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", to.String())
		}
	}
	if o.DialProxy == nil {
		dialer := &net.Dialer{}
		o.DialProxy = func(ctx context.Context, at string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", at) }
	}
	if o.Event == nil {
		o.Event = func(egress.Event) {}
	}
	if o.patience == 0 {
		o.patience = patience
	}
	if o.own == nil {
		o.own = hostAddresses
	}
	g := &Gateway{
		options: o, lookups: rate.NewLimiter(4, 128), owners: rate.NewLimiter(32, 64),
		slots:     make(chan struct{}, maxConns),
		listeners: map[uint16]net.Listener{}, nameListeners: nameListeners{by: map[netip.AddrPort]*nameListener{}}, inbound: map[*inboundConn]struct{}{}, outbound: map[*outboundConn]struct{}{}, reached: map[target]struct{}{},
	}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.policy.Store(o.Policy)
	g.web = newWeb(g)
	if err := g.open(o.Policy); err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

// open opens the listeners of all services, and of a policy.
func (g *Gateway) open(p *network.Compiled) error {
	for _, at := range resolvers {
		socket, err := g.options.Network.ListenUDP(g.ctx, at)
		if err != nil {
			return fmt.Errorf("DNS for the sandbox at %s, UDP: %w", at, err)
		}
		g.fixed = append(g.fixed, socket)
		g.running.Go(func() { g.serveDNS(socket, at) })
	}
	dns := make(chan struct{}, maxDNSConns)
	for _, s := range []struct {
		what  string
		at    netip.AddrPort
		slots chan struct{}
		serve func(*inboundConn)
	}{
		{"DNS", resolvers[0], dns, g.serveDNSConn},
		{"DNS", resolvers[1], dns, g.serveDNSConn},
		{"HTTP proxy", AddrHTTP, g.slots, g.web.serveProxy},
		{"SOCKS proxy", AddrSOCKS, g.slots, g.serveSOCKS},
	} {
		l, err := g.options.Network.ListenTCP(g.ctx, s.at)
		if err != nil {
			return fmt.Errorf("%s for the sandbox at %s, TCP: %w", s.what, s.at, err)
		}
		g.fixed = append(g.fixed, l)
		g.running.Go(func() { g.accept(l, s.slots, s.serve) })
	}
	return g.SetPolicy(p)
}

// SetPolicy replaces the policy. When it returns, the new policy is in force: listeners of new
// ports are open, and connections that the new policy does not allow are closed. On an error,
// which names a port that cannot be listened on, the policy is the old one. nil allows nothing.
func (g *Gateway) SetPolicy(p *network.Compiled) error {
	if p == nil {
		p = nothing
	}
	g.change.Lock()
	defer g.change.Unlock()
	if g.ctx.Err() != nil {
		return net.ErrClosed
	}
	opened := map[uint16]net.Listener{}
	for _, port := range p.Ports() {
		if g.perName(port) || g.listeners[port] != nil {
			continue
		}
		at := netip.AddrPortFrom(netip.IPv4Unspecified(), port)
		l, err := g.options.Network.ListenTCP(g.ctx, at)
		if err != nil {
			for _, l := range opened {
				_ = l.Close()
			}
			return fmt.Errorf("port %d of the sandbox, which a network rule has: %w; end the program inside that listens on it", port, err)
		}
		opened[port] = l
	}
	g.policy.Store(p)
	for port, l := range opened {
		g.listeners[port] = l
		g.running.Go(func() { g.accept(l, g.slots, g.serveAddress) })
	}
	for port, l := range g.listeners {
		if !slices.Contains(p.Ports(), port) {
			_ = l.Close()
			delete(g.listeners, port)
		}
	}
	g.replaceListeners(p)
	g.web.forget()
	g.revoke(p)
	return nil
}

// revoke closes the connections that a policy does not allow.
func (g *Gateway) revoke(p *network.Compiled) {
	var revoked []*outboundConn
	g.mu.Lock()
	for o := range g.outbound {
		if !o.allowedBy(p) {
			revoked = append(revoked, o)
		}
	}
	g.mu.Unlock()
	for _, o := range revoked {
		_ = o.Close()
	}
}

// serveAddress serves a connection to the address of a name.
func (g *Gateway) serveAddress(v *inboundConn) {
	local := addrPort(v.LocalAddr())
	v.to.port = local.Port()
	entry := g.names.find(local.Addr())
	if entry == nil {
		v.refuse(egress.Event{Address: local.Addr().String(), Reason: egress.ReasonAddress})
		return
	}
	v.to.name = entry.name
	if reason := v.permitAhead(v.to); reason != "" {
		v.refuse(egress.Event{Reason: reason})
		return
	}
	g.carry(v)
}

// carry serves a connection with a permitted target, by what its port is for.
func (g *Gateway) carry(v *inboundConn) {
	if g.isWeb(v.to) {
		g.web.serve(v)
		return
	}
	g.tunnel(v, nil)
}

// isWeb reports whether connections to a target are HTTP, request for request.
func (g *Gateway) isWeb(to target) bool {
	return to.port == 80 && g.policy.Load().ChecksName(to.name)
}

// process returns the process inside that has a socket, if it is known.
func (g *Gateway) process(local, remote netip.AddrPort) (pid int, program string) {
	if !g.maySearch() {
		return 0, ""
	}
	return g.search(local, remote)
}

// maySearch reports whether a search for a process may be made now. It counts as one.
func (g *Gateway) maySearch() bool { return g.options.Process != nil && g.owners.Allow() }

// search searches for a process, as process. It waits for the searches before it.
func (g *Gateway) search(local, remote netip.AddrPort) (pid int, program string) {
	g.searching.Lock()
	defer g.searching.Unlock()
	if g.ctx.Err() != nil {
		return 0, ""
	}
	return g.options.Process(local, remote)
}

// enter records a connection from inside, and reports whether the gateway still runs.
func (g *Gateway) enter(v *inboundConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.inbound[v] = struct{}{}
	return true
}

// left removes the record of a connection from inside.
func (g *Gateway) forgetInbound(v *inboundConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inbound, v)
}

// report passes on an event, whose Time is not used.
func (g *Gateway) report(e egress.Event) {
	e.Time = time.Now()
	g.options.Event(e)
}

// Close closes all listeners and connections, and waits for what the gateway has started. It may be
// called more than once.
func (g *Gateway) Close() error {
	g.cancel() // first, so that a socket that is being made does not hold the lock
	g.change.Lock()
	var errs []error
	for _, l := range g.fixed {
		errs = append(errs, l.Close())
	}
	for _, l := range g.listeners {
		errs = append(errs, l.Close())
	}
	for _, o := range g.nameListeners.order {
		errs = append(errs, o.Close())
	}
	g.fixed, g.listeners, g.nameListeners = nil, nil, nameListeners{}
	g.change.Unlock()
	g.mu.Lock()
	var all []interface{ Close() error }
	for v := range g.inbound {
		all = append(all, v)
	}
	for o := range g.outbound {
		all = append(all, o)
	}
	g.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // an error is of a connection that ends anyhow
	}
	g.web.close()
	g.running.Wait()
	return errors.Join(errs...)
}
