package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

const (
	maxAddresses = 8                      // of a name that are tried
	stagger      = 250 * time.Millisecond // between attempts to connect to them (RFC 8305, 5)
	dialPatience = 30 * time.Second       // for a lookup and all attempts
)

// A refusal is the error of a connection to the outside that was not made.
type refusal struct{ event egress.Event }

func (r *refusal) Error() string { return r.event.Reason }

// refusalOf returns the event of an error of dial.
func refusalOf(err error) egress.Event {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.event
	}
	return egress.Event{Reason: egress.ReasonUnreached}
}

func refused(e egress.Event) error { return &refusal{e} }

// A dialMode is the part of the policy that permits a connection to the outside.
type dialMode int

const (
	direct   dialMode = iota // a rule that allows the name and port
	header                   // a header of the name
	answered                 // an answer, where no rule does
)

// allowed reports whether the policy permits a target in this mode.
func (w dialMode) allowed(p *network.Compiled, to target) bool {
	switch w {
	case header:
		return to.port == 443 && len(p.Headers(to.name)) > 0
	case answered:
		return p.Allows(to.name, to.port) || p.MayAsk(to.name, to.port)
	}
	return p.Allows(to.name, to.port)
}

// dial connects to a target that the policy allows, until of or the gateway ends. It resolves the
// name once, checks all addresses, and connects to checked addresses only. v, the connection that
// caused it, reports events that do not end it. An error is a *refusal.
func (g *Gateway) dial(of context.Context, v *inboundConn, to target, by dialMode) (*outboundConn, error) {
	ctx, cancel := context.WithTimeout(g.ctx, dialPatience)
	defer cancel()
	stop := context.AfterFunc(of, cancel)
	defer stop()
	policy := g.policy.Load()
	if !by.allowed(policy, to) {
		return nil, refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonPort})
	}
	if _, ruled := policy.Rule(to.name, to.port); by == direct && !ruled {
		v.report(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonLearned})
	}
	addr, consent := policy.Host(to.name)
	conn, err := g.connect(ctx, v, policy, to)
	if err != nil {
		return nil, err
	}
	o := &outboundConn{Conn: conn, g: g, to: to, mode: by, proxy: policy.Upstream()}
	if consent {
		o.consent = addr
	}
	if !g.register(o) {
		_ = o.Close()
		return nil, refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonPort})
	}
	return o, nil
}

// connect connects to the policy's own address of a target, through the policy's proxy, or to an
// address that was looked up and checked.
func (g *Gateway) connect(ctx context.Context, v *inboundConn, policy *network.Compiled, to target) (net.Conn, error) {
	addr, consent := policy.Host(to.name)
	addrs := []netip.Addr{addr}
	if !consent {
		if err := g.mayAsk(ctx, to, policy.Named(to.name)); err != nil {
			return nil, err
		}
		if proxy := policy.Upstream(); proxy != "" {
			return g.throughProxy(ctx, proxy, to)
		}
		var err error
		if addrs, err = g.resolve(ctx, v, to, policy.Private(to.name)); err != nil {
			return nil, err
		}
	}
	conn, err := g.race(ctx, addrs, to.port)
	if err != nil {
		return nil, refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonUnreached})
	}
	return conn, nil
}

// mayAsk waits until the gateway may pass a name to resolvers outside. It returns an error if the
// wait is too long: the rate of names that the program inside chose is limited.
func (g *Gateway) mayAsk(ctx context.Context, to target, named bool) error {
	entry := g.names.assign(to.name, named)
	if entry == nil {
		return refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonFull})
	}
	if !named && !entry.lookedUp.Load() {
		limit, cancel := context.WithTimeout(ctx, g.options.patience)
		defer cancel()
		if g.lookups.Wait(limit) != nil {
			return refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonRate, Remedy: network.Remedy(to.name, to.port)})
		}
		entry.lookedUp.Store(true)
	}
	return nil
}

// resolve returns the addresses of a name that a connection may go to, at least one. private says
// that they may be private ones.
func (g *Gateway) resolve(ctx context.Context, v *inboundConn, to target, private bool) ([]netip.Addr, error) {
	found, err := g.options.Lookup(ctx, to.name)
	if err != nil || len(found) == 0 {
		return nil, refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonResolve})
	}
	own, err := g.options.own()
	if err != nil {
		return nil, refused(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonSystem})
	}
	public, bad := check(found, own, private)
	for _, b := range bad {
		b.Name, b.Port, b.Remedy = to.name, int(to.port), addressRemedy(to, b)
		if len(public) == 0 {
			return nil, refused(b)
		}
		v.report(b)
	}
	return public, nil
}

// addressRemedy returns the flag that allows an address that was refused.
func addressRemedy(to target, refused egress.Event) string {
	addr, err := netip.ParseAddr(refused.Address)
	if err == nil && refused.Reason != egress.ReasonOwn && network.IsPrivate(network.Forbidden(addr)) {
		return network.Remedy(to.name, to.port) + network.PrivateSuffix
	}
	return "--add-host " + to.name + ":" + refused.Address
}

// check returns the addresses that a name may lead to, at most maxAddresses, and an event for
// each kind of the others. private says that the name may lead to private ones.
func check(found, own []netip.Addr, private bool) (public []netip.Addr, bad []egress.Event) {
	for _, addr := range found {
		reason := ""
		if kind := network.Forbidden(addr); kind != "" && !(private && network.IsPrivate(kind)) {
			reason = fmt.Sprintf(egress.ReasonForbidden, kind)
		} else if slices.Contains(own, addr.Unmap()) {
			reason = egress.ReasonOwn
		}
		switch {
		case reason == "" && len(public) < maxAddresses:
			public = append(public, addr.Unmap())
		case reason != "" && !slices.ContainsFunc(bad, func(e egress.Event) bool { return e.Reason == reason }):
			bad = append(bad, egress.Event{Address: addr.String(), Reason: reason})
		}
	}
	return public, bad
}

// race connects to the first of the addresses that answers. It tries the addresses in their order.
// An attempt begins when the one before has failed, or after stagger.
func (g *Gateway) race(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, len(addrs)) // no attempt blocks
	begun, ended := 0, 0
	begin := func() {
		to := netip.AddrPortFrom(addrs[begun], port)
		begun++
		g.running.Go(func() {
			conn, err := g.options.Dial(ctx, to)
			results <- result{conn, err}
		})
	}
	begin()
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if begun < len(addrs) {
				begin()
				timer.Reset(stagger)
			}
		case r := <-results:
			ended++
			if r.err == nil {
				if rest := begun - ended; rest > 0 {
					g.running.Go(func() {
						for range rest {
							if r := <-results; r.err == nil {
								_ = r.conn.Close()
							}
						}
					})
				}
				return r.conn, nil
			}
			if begun < len(addrs) {
				begin()
				timer.Reset(stagger)
			} else if ended == begun {
				return nil, r.err
			}
		}
	}
}

// hostAddresses returns the addresses of the host's interfaces.
func hostAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range all {
		if prefix, is := a.(*net.IPNet); is {
			if addr, ok := netip.AddrFromSlice(prefix.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}
