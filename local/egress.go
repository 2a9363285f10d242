package local

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/local/conns"
	"wolffia/local/defaults"
	"wolffia/network"
	"wolffia/runtime"
)

// copyOf returns a copy of a policy, which may be nil.
func copyOf(p *network.Policy) *network.Policy {
	if p == nil {
		return nil
	}
	c := *p
	c.Allow, c.NoNameCheck, c.Headers = slices.Clone(p.Allow), slices.Clone(p.NoNameCheck), slices.Clone(p.Headers)
	c.Hosts, c.Private, c.Sources = maps.Clone(p.Hosts), slices.Clone(p.Private), maps.Clone(p.Sources)
	return &c
}

// Egress returns a copy of the names that a sandbox can reach, whether it runs or not; nil: none.
func (s *settings) Egress(_ context.Context, sandboxID string) (*network.Policy, error) {
	_, c, err := s.header(sandboxID)
	if err != nil {
		return nil, err
	}
	return copyOf(c.Egress), nil
}

// ChangeEgress replaces the names that a sandbox with [runtime.NetworkFiltered] can reach by
// what edit makes of a copy of them, which is never nil, and returns the new ones. They are in
// force when it returns if the sandbox runs, and connections that they do not allow are closed;
// else they hold from the next start. Calls for one sandbox are serialized. The error is
// edit's, or as that of [runtime.Workspace].
func (s *settings) ChangeEgress(ctx context.Context, sandboxID string, edit func(*network.Policy) error) (*network.Policy, error) {
	rec, c, release, err := s.changing(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	defer release()
	if c.Network != runtime.NetworkFiltered {
		return nil, runtime.Errorf(runtime.ErrInvalid, "sandbox %s has network %s, in which names allow nothing: create it again with --network %s", rec.ID(), defaults.NetworkOf(c), runtime.NetworkFiltered)
	}
	was := *c
	if c.Egress = copyOf(c.Egress); c.Egress == nil {
		c.Egress = new(network.Policy)
	}
	if err := edit(c.Egress); err != nil {
		return nil, err
	}
	if err := runtime.CheckEgress(c.Egress); err != nil {
		return nil, err
	}
	if err := checkHeaders(c.Egress, written(c)); err != nil {
		return nil, err
	}
	return c.Egress, amend(ctx, rec, c, &was, "names", "try again", func(ctx context.Context) (*boot.Reply, error) {
		return conns.Ask(ctx, rec, &boot.Request{Op: boot.OpNetwork, Egress: c.Egress}, boot.RulesLimit+boot.KillLimit)
	})
}

// Reached returns NAME:PORT of hosts that a sandbox with [runtime.NetworkFiltered] has connected to
// since its start, some hundred at most. It must run.
func (s *settings) Reached(ctx context.Context, sandboxID string) ([]string, error) {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return nil, err
	}
	answer, err := conns.Ask(ctx, rec, &boot.Request{Op: boot.OpEgress, Since: math.MaxInt64}, boot.StatsLimit)
	if err != nil {
		return nil, err
	}
	return strings.Fields(answer.Reached), nil
}

// refusalsBefore returns a function that returns what a sandbox's network has refused since
// this call; nil if the sandbox has no names. Each of the two asks the shim.
func refusalsBefore(ctx context.Context, rec *statedir.Record, c *statedir.Config) func(context.Context) *runtime.Refusals {
	if c.Network != runtime.NetworkFiltered {
		return nil
	}
	ask := func(ctx context.Context, since int64) *boot.Reply {
		// The command has ended, whether or not its caller still waits.
		answer, err := conns.Ask(context.WithoutCancel(ctx), rec, &boot.Request{Op: boot.OpEgress, Since: since}, boot.StatsLimit)
		if err != nil {
			return nil // the log has them
		}
		return answer
	}
	before := ask(ctx, math.MaxInt64)
	if before == nil {
		return nil
	}
	return func(ctx context.Context) *runtime.Refusals {
		if now := ask(ctx, before.Seen); now != nil {
			return now.Refused
		}
		return nil
	}
}
