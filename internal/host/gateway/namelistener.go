package gateway

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

const (
	// openPort is the first port at which any program inside can listen (ip(7),
	// ip_unprivileged_port_start). Below openPort one listener serves the addresses of all names,
	// except with Config.LowPorts.
	// From openPort on each name has listeners of its own, which the first lookup makes: a
	// listener at all addresses and one at a single address exclude each other, so one listener
	// for all names would take the port from servers inside.
	openPort = 1024
	// maxDoors bounds these listeners. It is more than the ports of a policy. Beyond it the
	// gateway closes the oldest listener. The next lookup of that listener's name opens it again.
	maxNameListeners = 512
)

// perName reports whether each name has its own listener for a port, because programs inside, DNS,
// an exposed or a published port may listen at that port at another address.
func (g *Gateway) perName(port uint16) bool {
	return port >= openPort || g.options.LowPorts || port == AddrDNS.Port() || slices.Contains(g.options.Exposed, port)
}

// A nameListener is a listener at the address of a name.
type nameListener struct {
	net.Listener
	entry *nameEntry
	at    netip.AddrPort
}

// nameListeners are in the order in which they were opened. They are guarded by Gateway.change.
type nameListeners struct {
	by    map[netip.AddrPort]*nameListener
	order []*nameListener
}

// oldest returns the listener that was opened first, of another name than p.
func (d *nameListeners) oldest(p *nameEntry) *nameListener {
	return d.order[slices.IndexFunc(d.order, func(o *nameListener) bool { return o.entry != p })]
}

// close closes a listener. The next lookup of its name opens it again.
func (d *nameListeners) close(o *nameListener) {
	_ = o.Close()
	o.entry.listening.Store(nil)
	delete(d.by, o.at)
	d.order = slices.DeleteFunc(d.order, func(other *nameListener) bool { return other == o })
}

// listenFor opens the listeners of a name that a program inside is about to connect to.
func (g *Gateway) listenFor(p *nameEntry) {
	if p.listening.Load() == g.policy.Load() {
		return
	}
	g.change.Lock()
	defer g.change.Unlock()
	g.openListeners(p, g.policy.Load())
}

// openListeners opens the listeners of a name for all ports of a policy, also for ports that are
// not allowed for this name: there the gateway can report a refusal. The caller holds g.change.
func (g *Gateway) openListeners(p *nameEntry, policy *network.Compiled) {
	if g.ctx.Err() != nil {
		return
	}
	complete := true
	for _, port := range policy.Ports() {
		at := netip.AddrPortFrom(p.addr, port)
		if !g.perName(port) || g.nameListeners.by[at] != nil {
			continue
		}
		if len(g.nameListeners.order) == maxNameListeners {
			g.nameListeners.close(g.nameListeners.oldest(p))
		}
		l, err := g.options.Network.ListenTCP(g.ctx, at)
		if err != nil {
			complete = false
			e := egress.Event{Op: egress.OpLookup, Name: p.name, Port: int(port), Reason: egress.ReasonSystem}
			if errors.Is(err, syscall.EADDRINUSE) {
				e.Reason = egress.ReasonTaken
			}
			if policy.Allows(p.name, port) {
				g.report(e)
			}
			continue
		}
		o := &nameListener{Listener: l, entry: p, at: at}
		g.nameListeners.by[at] = o
		g.nameListeners.order = append(g.nameListeners.order, o)
		g.running.Go(func() { g.accept(l, g.slots, g.serveAddress) })
	}
	if complete {
		p.listening.Store(policy)
	}
}

// replaceListeners closes the listeners at ports that a new policy lacks, and opens listeners at
// its other ports for the names that were looked up last. The caller holds g.change.
func (g *Gateway) replaceListeners(policy *network.Compiled) {
	for _, o := range slices.Clone(g.nameListeners.order) {
		if !slices.Contains(policy.Ports(), o.at.Port()) {
			g.nameListeners.close(o)
		}
	}
	for _, p := range g.names.last(maxNameListeners) {
		if len(g.nameListeners.order)+len(policy.Ports()) > maxNameListeners {
			return
		}
		g.openListeners(p, policy)
	}
}
