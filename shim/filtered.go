package shim

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"wolffia/fusefs/audit"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/egress"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/proc"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A filtered is the network of a sandbox that names filter, and what it has
// refused. It is safe for concurrent use.
type filtered struct {
	filter egress.Filter
	log    *audit.Log
	asks   bool // connections are asked for

	mu     sync.Mutex
	recent audit.Recent
	count  int64 // of refusals; guarded by mu
}

// filter starts the network of a sandbox that names filter. Others have none to start.
func (s *shim) filter() error {
	c := &s.boot.Config
	if c.Network != runtime.NetworkFiltered {
		return nil
	}
	if s.startFilter == nil {
		return runtime.Errorf(runtime.ErrUnavailable, "this program cannot filter a network by names: wolffia-net, which can, has to be started in its place")
	}
	s.step("open the network")
	net, err := s.net.reach()
	if err != nil {
		return err
	}
	o := &egress.Config{Network: net, LowPorts: c.Root}
	for i := range c.Expose {
		o.Exposed = append(o.Exposed, uint16(c.Expose[i].InsidePort()))
	}
	for i := range c.Publish {
		o.Exposed = append(o.Exposed, uint16(c.Publish[i].Port))
	}
	if pid := s.inst.pid1().pid; pid > 0 && s.boot.Can.Has(launch.HostProcesses) {
		o.Process = func(local, remote netip.AddrPort) (int, string) { return owner(pid, local, remote) }
	}
	if c.Asks(runtime.AskNetwork) {
		o.Ask = func(ctx context.Context, e egress.Event) bool {
			return s.asks.ask(ctx, hostQuestion(e), c.AskLimitOrDefault())
		}
	}
	s.filtered, err = startFiltered(s.startFilter, s.boot.Run, o, c.Egress)
	return err
}

// maxCommandLine bounds Question.Command, in bytes.
const maxCommandLine = 512

// hostQuestion returns the question for a connection that no rule allows.
func hostQuestion(e egress.Event) *runtime.Question {
	port := strconv.Itoa(e.Port)
	q := &runtime.Question{
		Kind: runtime.AskNetwork, Op: e.Op, Host: net.JoinHostPort(e.Name, port), PID: e.PID, Program: audit.Printable(e.Program),
		Allow: e.Remedy, Targets: network.Targets(e.Name, port, e.Wide),
	}
	if e.PID > 0 {
		q.Command = audit.Printable(proc.CommandLine(e.PID, maxCommandLine))
	}
	return q
}

// startFiltered starts the network of a sandbox with the names of policy, nil for none. The caller
// closes it.
func startFiltered(start egress.Start, run string, o *egress.Config, policy *network.Policy) (*filtered, error) {
	e := &filtered{asks: o.Ask != nil}
	compiled, err := e.compile(policy)
	if err != nil {
		return nil, err
	}
	e.log = audit.NewLog(statedir.NetworkAudit(run), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	o.Policy, o.Event = compiled, e.event
	e.filter, err = start(context.Background(), o)
	if err != nil {
		e.log.Close(boot.AuditLimit)
		return nil, runtime.Errorf(runtime.ErrUnavailable, "network of the sandbox: %w", err)
	}
	return e, nil
}

func (e *filtered) compile(p *network.Policy) (*network.Compiled, error) {
	var names network.Policy
	if p != nil {
		names = *p
	}
	names.Ask = e.asks
	compiled, err := names.Compile()
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	return compiled, nil
}

// reaches reports whether names allow the connection of a question.
func reaches(names *network.Compiled, q *runtime.Question) bool {
	name, text, err := net.SplitHostPort(q.Host)
	port, bad := strconv.ParseUint(text, 10, 16)
	return err == nil && bad == nil && names.Allows(name, uint16(port))
}

// set replaces the names, and has questions end that they allow.
func (e *filtered) set(p *network.Policy, of *asks) error {
	compiled, err := e.compile(p)
	if err != nil {
		return err
	}
	if err := e.filter.SetPolicy(compiled); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	of.allow(runtime.AskNetwork, func(q *runtime.Question) bool { return reaches(compiled, q) })
	return nil
}

// event records an event of the filter. The log bounds what is written, and says how much it has
// left out.
func (e *filtered) event(ev egress.Event) {
	r := audit.Record{
		Time: ev.Time, Count: 1, Op: ev.Op, Host: &audit.Host{Name: ev.Name, Address: ev.Address, Port: ev.Port, Reason: ev.Reason},
		Remedy: ev.Remedy, PID: uint32(max(0, ev.PID)), Command: ev.Program,
	}
	if ev.Reason != egress.ReasonLearned && ev.Reason != egress.ReasonAnswered {
		e.mu.Lock()
		e.count = e.recent.Add(r, nil)
		e.mu.Unlock()
	}
	e.log.Add(r, nil)
}

// maxRefusals bounds the refusals of a reply; each of their texts is bounded too.
const maxRefusals = 10

// refused answers boot.OpEgress, with the last refusals in order.
func (e *filtered) refused(since int64) *boot.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	reply := &boot.Reply{Seen: e.count}
	seen := e.recent.Since(since)
	if len(seen) == 0 {
		return reply
	}
	reply.Refused = &runtime.Refusals{More: max(0, len(seen)-maxRefusals)}
	for _, r := range seen[reply.Refused.More:] {
		reply.Refused.List = append(reply.Refused.List, r.Refusal())
	}
	return reply
}

// close ends the network, and writes what is left of the log.
func (e *filtered) close() {
	ended := make(chan struct{})
	go func() { // ends with the filter, or with the process
		_ = e.filter.Close() // its sockets are of a sandbox that has ended
		close(ended)
	}()
	boot.Within(boot.AuditLimit, ended)
	e.log.Close(boot.AuditLimit)
}

// errNotFiltered is the error of a request about names of a sandbox with another network.
var errNotFiltered = runtime.Errorf(runtime.ErrConflict, "the sandbox's network is not filtered by names")
