package gateway

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/network"
)

// An outboundConn is a connection to the outside. The gateway closes it when the policy does not
// allow it any more.
type outboundConn struct {
	net.Conn
	g         *Gateway
	to        target
	mode      dialMode
	proxy     string     // the policy's proxy
	consent   netip.Addr // the policy's own address of the name, if it was dialled
	unchecked bool       // the gateway has not checked the name in the connection's data; guarded by Gateway.mu
	end       sync.Once
}

// mark records whether the connection's name is checked, and reports whether the present policy
// allows that. The policy may have changed since the caller asked it.
func (o *outboundConn) mark(checked bool) bool {
	o.g.mu.Lock()
	defer o.g.mu.Unlock()
	o.unchecked = !checked
	return o.allowedBy(o.g.policy.Load())
}

// allowedBy reports whether a policy allows the connection. The caller holds Gateway.mu.
func (o *outboundConn) allowedBy(p *network.Compiled) bool {
	addr, _ := p.Host(o.to.name)
	return o.mode.allowed(p, o.to) && addr == o.consent && p.Upstream() == o.proxy && !(o.unchecked && p.ChecksName(o.to.name))
}

// Close closes the connection.
func (o *outboundConn) Close() error {
	o.end.Do(func() {
		o.g.mu.Lock()
		defer o.g.mu.Unlock()
		delete(o.g.outbound, o)
		o.g.sent, o.g.received = o.carried(o.g.sent, o.g.received)
	})
	return o.Conn.Close()
}

// carried adds how many bytes the connection has sent and received to two numbers. The kernel
// counts them: it moves most of them by itself. Of a connection that is closed it tells nothing.
func (o *outboundConn) carried(sent, received int64) (int64, int64) {
	conn, is := o.Conn.(syscall.Conn)
	if !is {
		return sent, received
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return sent, received
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			sent, received = sent+int64(info.Bytes_acked), received+int64(info.Bytes_received)
		}
	})
	return sent, received
}

// Traffic implements [egress.Filter].
func (g *Gateway) Traffic() (sent, received int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sent, received = g.sent, g.received
	for o := range g.outbound {
		sent, received = o.carried(sent, received)
	}
	return sent, received
}

// CloseWrite ends the direction to the outside.
func (o *outboundConn) CloseWrite() error { return closeWrite(o.Conn) }

// register records a connection, and reports whether the policy allows it now.
func (g *Gateway) register(o *outboundConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.outbound[o] = struct{}{}
	allowed := o.allowedBy(g.policy.Load())
	if allowed && len(g.reached) < maxReached {
		g.reached[o.to] = struct{}{}
	}
	return allowed
}

// maxReached is how many hosts are remembered: the program inside can choose any number of names.
const maxReached = 100

// Reached implements [egress.Filter].
func (g *Gateway) Reached() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for to := range g.reached {
		all = append(all, net.JoinHostPort(to.name, strconv.Itoa(int(to.port))))
	}
	slices.Sort(all)
	return all
}
