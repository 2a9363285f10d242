package shim

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/internal/boot"
	"wolffia/internal/gateway"
	"wolffia/internal/statedir"
	"wolffia/network"
	"wolffia/runtime"
)

// An egress is the network of a sandbox that names filter: the gateway, and what it has
// refused. It is safe for concurrent use.
type egress struct {
	gateway *gateway.Gateway
	log     *audit.Log

	mu     sync.Mutex
	recent audit.Recent
	count  int64                 // of refusals; guarded by mu
	last   map[gateway.Event]int // the Count of each kind of event, of which the gateway has a limited number; guarded by mu
}

// filter starts the network of a sandbox that names filter. Others have none to start.
func (s *shim) filter() error {
	c := &s.boot.Config
	if c.Network != runtime.NetworkFiltered {
		return nil
	}
	s.step("open the network")
	net, err := s.reach()
	if err != nil {
		return err
	}
	// With a kernel of its own, or in an engine, the processes inside are not the host's.
	o := gateway.Options{Network: net}
	if pid := initOf(s.inst.PID); pid > 0 && !s.boot.OwnKernel && s.boot.Engine == "" {
		o.Process = func(local, remote netip.AddrPort) (int, string) { return owner(pid, local, remote) }
	}
	s.egress, err = startEgress(s.boot.Run, o, c.Egress)
	return err
}

// startEgress starts the network of a sandbox with the names of policy, nil for none. The caller
// closes it.
func startEgress(run string, o gateway.Options, policy *network.Policy) (*egress, error) {
	compiled, err := compile(policy)
	if err != nil {
		return nil, err
	}
	e := &egress{log: audit.NewLog(statedir.NetworkAudit(run), slog.New(slog.NewTextHandler(os.Stderr, nil))), last: map[gateway.Event]int{}}
	o.Policy, o.Event = compiled, e.event
	e.gateway, err = gateway.Start(context.Background(), o)
	if err != nil {
		e.log.Close(boot.AuditLimit)
		return nil, runtime.Errorf(runtime.ErrUnavailable, "network of the sandbox: %w", err)
	}
	return e, nil
}

func compile(p *network.Policy) (*network.Compiled, error) {
	if p == nil {
		p = new(network.Policy)
	}
	compiled, err := p.Compile()
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	return compiled, nil
}

// set replaces the names.
func (e *egress) set(p *network.Policy) error {
	compiled, err := compile(p)
	if err != nil {
		return err
	}
	if err := e.gateway.SetPolicy(compiled); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// event records an event of the gateway.
func (e *egress) event(ev gateway.Event) {
	r := audit.Record{
		Time: ev.Time, Op: ev.Op, Host: &audit.Host{Name: ev.Name, Address: ev.Address, Port: ev.Port, Reason: ev.Reason},
		Remedy: ev.Remedy, PID: uint32(max(0, ev.PID)), Command: ev.Program,
	}
	kind := ev
	kind.Time, kind.Count = time.Time{}, 0
	e.mu.Lock()
	r.Count = int64(max(1, ev.Count-e.last[kind]))
	e.last[kind] = ev.Count
	if ev.Reason != gateway.ReasonLearned {
		e.count = e.recent.Add(r, nil)
	}
	e.mu.Unlock()
	e.log.Add(r, nil)
}

// maxRefusals bounds the refusals of a reply; each of their texts is bounded too.
const maxRefusals = 10

// refused answers boot.OpEgress.
func (e *egress) refused(since int64) *boot.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	reply := &boot.Reply{Seen: e.count}
	for _, r := range e.recent.Since(since) {
		if reply.Refused == nil {
			reply.Refused = new(runtime.Refusals)
		}
		if len(reply.Refused.List) == maxRefusals {
			reply.Refused.More++
			continue
		}
		reply.Refused.List = append(reply.Refused.List, runtime.Refusal{
			Time: r.Time, Op: r.Op, Name: audit.Printable(r.Host.Name), Address: audit.Printable(r.Host.Address), Port: r.Host.Port,
			PID: int(r.PID), Program: audit.Printable(r.Command), Reason: audit.Printable(r.Host.Reason), Allow: audit.Printable(r.Remedy), Count: int(r.Count),
		})
	}
	return reply
}

// close ends the network, and writes what is left of the log.
func (e *egress) close() {
	ended := make(chan struct{})
	go func() { // ends with the gateway, or with the process
		_ = e.gateway.Close() // its sockets are of a sandbox that has ended
		close(ended)
	}()
	boot.Within(boot.AuditLimit, ended)
	e.log.Close(boot.AuditLimit)
}

// errNotFiltered is the error of a request about names of a sandbox with another network.
var errNotFiltered = runtime.Errorf(runtime.ErrConflict, "the sandbox's network is not filtered by names")
