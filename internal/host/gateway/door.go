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
	// ip_unprivileged_port_start). Below it one listener serves the addresses of all names. At and
	// above it that would take the port from servers inside, since a listener at all addresses
	// and one at a single address exclude each other: each name has listeners of its own, from the
	// first lookup on.
	openPort = 1024
	// maxDoors is how many such listeners there are at once: more than the ports of a policy. For more, those of the name that was
	// looked up first are closed, until it is looked up again.
	maxDoors = 512
)

// hasDoors reports whether each name has its own listener for a port, since others inside may listen there at an address of
// theirs: programs, DNS, or an exposed port.
func (g *Gateway) hasDoors(port uint16) bool {
	return port >= openPort || port == AddrDNS.Port() || slices.Contains(g.options.Exposed, port)
}

// A door is a listener at the address of a name.
type door struct {
	net.Listener
	page *page
	at   netip.AddrPort
}

// doors are in the order in which they were opened. They are guarded by Gateway.change.
type doors struct {
	by    map[netip.AddrPort]*door
	order []*door
}

// oldest returns the door that was opened first, of another name than p.
func (d *doors) oldest(p *page) *door {
	return d.order[slices.IndexFunc(d.order, func(o *door) bool { return o.page != p })]
}

// close closes a door. The next lookup of its name opens it again.
func (d *doors) close(o *door) {
	_ = o.Close()
	o.page.met.Store(nil)
	delete(d.by, o.at)
	d.order = slices.DeleteFunc(d.order, func(other *door) bool { return other == o })
}

// meet opens the doors of a name that a program inside is about to connect to.
func (g *Gateway) meet(p *page) {
	if p.met.Load() == g.policy.Load() {
		return
	}
	g.change.Lock()
	defer g.change.Unlock()
	g.openDoors(p, g.policy.Load())
}

// openDoors opens the doors of a name for all ports that a policy has, also for those that are not
// allowed for this name: then a refusal can be said. The caller holds g.change.
func (g *Gateway) openDoors(p *page, policy *network.Compiled) {
	if g.ctx.Err() != nil {
		return
	}
	complete := true
	for _, port := range policy.Ports() {
		at := netip.AddrPortFrom(p.addr, port)
		if !g.hasDoors(port) || g.doors.by[at] != nil {
			continue
		}
		if len(g.doors.order) == maxDoors {
			g.doors.close(g.doors.oldest(p))
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
		o := &door{Listener: l, page: p, at: at}
		g.doors.by[at] = o
		g.doors.order = append(g.doors.order, o)
		g.running.Go(func() { g.accept(l, g.slots, g.serveAddress) })
	}
	if complete {
		p.met.Store(policy)
	}
}

// moveDoors closes the doors whose ports a new policy lacks, and opens its others for the names
// that were looked up last. The caller holds g.change.
func (g *Gateway) moveDoors(policy *network.Compiled) {
	for _, o := range slices.Clone(g.doors.order) {
		if !slices.Contains(policy.Ports(), o.at.Port()) {
			g.doors.close(o)
		}
	}
	for _, p := range g.book.last(maxDoors) {
		if len(g.doors.order)+len(policy.Ports()) > maxDoors {
			return
		}
		g.openDoors(p, policy)
	}
}
