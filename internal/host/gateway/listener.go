package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"wolffia/internal/host/egress"
)

const (
	maxConns = 1024             // connections from inside at once, without those for DNS
	patience = 10 * time.Second // for what precedes a connection's data
)

// accept serves the connections of a listener until it is closed. It takes a slot for each.
func (g *Gateway) accept(l net.Listener, slots chan struct{}, serve func(*inboundConn)) {
	pause := pause{done: g.ctx.Done()}
	for {
		c, err := l.Accept()
		if err != nil {
			if g.ctx.Err() != nil || closed(err) {
				return
			}
			g.report(egress.Event{Op: egress.OpConnect, Reason: egress.ReasonSystem})
			if !pause.wait() {
				return
			}
			continue
		}
		pause.reset()
		select {
		case slots <- struct{}{}:
		default:
			g.report(egress.Event{Op: egress.OpConnect, Port: int(addrPort(c.LocalAddr()).Port()), Reason: egress.ReasonBusy})
			select {
			case slots <- struct{}{}:
			case <-g.ctx.Done():
				_ = c.Close()
				return
			}
		}
		v := &inboundConn{Conn: c, g: g, slots: slots, op: egress.OpConnect}
		v.holds.Store(1)
		if !g.enter(v) {
			_ = v.Close()
			return
		}
		g.running.Go(func() { serve(v) })
	}
}

// closed reports whether a listener or socket cannot be used any more.
func closed(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled)
}

// A pause is the time between attempts after an error that may pass, such as a lack of
// descriptors: longer each time.
type pause struct {
	done <-chan struct{}
	next time.Duration
}

func (p *pause) reset() { p.next = 0 }

// wait waits, and reports whether to continue.
func (p *pause) wait() bool {
	p.next = min(max(2*p.next, 5*time.Millisecond), time.Second)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	}
}
