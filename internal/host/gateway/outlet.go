package gateway

import (
	"net"
	"net/netip"
	"sync"

	"wolffia/network"
)

// An outlet is a connection to the outside. The gateway closes it when the policy does not
// allow it any more.
type outlet struct {
	net.Conn
	g         *Gateway
	to        target
	by        way
	proxy     string     // the policy's proxy
	consent   netip.Addr // the policy's own address of the name, if it was dialled
	unchecked bool       // what the connection says of its destination was not checked; guarded by Gateway.mu
	end       sync.Once
}

// mark records whether the connection's name is checked, and reports whether the policy allows that now: it may have changed
// since the caller asked it.
func (o *outlet) mark(checked bool) bool {
	o.g.mu.Lock()
	defer o.g.mu.Unlock()
	o.unchecked = !checked
	return o.stands(o.g.policy.Load())
}

// stands reports whether a policy allows the connection. The caller holds Gateway.mu.
func (o *outlet) stands(p *network.Compiled) bool {
	addr, _ := p.Host(o.to.name)
	return o.by.allowed(p, o.to) && addr == o.consent && p.Upstream() == o.proxy && !(o.unchecked && p.ChecksName(o.to.name))
}

// Close closes the connection.
func (o *outlet) Close() error {
	err := o.Conn.Close()
	o.end.Do(func() {
		o.g.mu.Lock()
		defer o.g.mu.Unlock()
		delete(o.g.outlets, o)
	})
	return err
}

// CloseWrite ends the direction to the outside.
func (o *outlet) CloseWrite() error { return closeWrite(o.Conn) }

// register records a connection, and reports whether the policy allows it now.
func (g *Gateway) register(o *outlet) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.outlets[o] = struct{}{}
	return o.stands(g.policy.Load())
}
