package service

import (
	"context"
	"strings"

	"wolffia/network"
	"wolffia/runtime"
)

// MaxMetadata is how many labels of metadata a sandbox of a service has at most.
const MaxMetadata = 256

// ChangeMetadata merges a patch into the metadata of a sandbox: a nil value removes the label.
func (s *Service) ChangeMetadata(ctx context.Context, caller Caller, id string, patch map[string]*string) (*Sandbox, error) {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	b, err := s.rt.ChangeLabels(ctx, id, func(labels map[string]string) error { return merge(labels, patch) })
	if err != nil {
		return nil, err
	}
	changed, _ := s.describe(b)
	if changed == nil || !caller.May(changed.Owner) {
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", id)
	}
	return changed, nil
}

// ChangeRecord replaces the labels of a sandbox, wolffia's own among them, by what edit makes of a
// copy. Calls for one sandbox are serialized. A front end keeps so what it has to find again.
func (s *Service) ChangeRecord(ctx context.Context, caller Caller, id string, edit func(labels map[string]string) error) error {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return err
	}
	_, err := s.rt.ChangeLabels(ctx, id, edit)
	return err
}

// merge merges a patch into labels.
func merge(labels map[string]string, patch map[string]*string) error {
	for k, v := range patch {
		switch {
		case strings.HasPrefix(k, reservedLabel):
			return reserved(k)
		case v == nil:
			delete(labels, k)
		default:
			labels[k] = *v
		}
	}
	n := 0
	for k := range labels {
		if !strings.HasPrefix(k, reservedLabel) {
			n++
		}
	}
	return checkMetadata(n)
}

// reservedLabel begins the labels that are wolffia's own.
const reservedLabel = "wolffia."

func reserved(key string) error {
	return runtime.Errorf(runtime.ErrInvalid, "metadata %q: keys that begin with %s are reserved", key, reservedLabel)
}

// checkMetadata returns why a sandbox cannot have n labels of metadata, or nil.
func checkMetadata(n int) error {
	if n > MaxMetadata {
		return runtime.Errorf(runtime.ErrInvalid, "metadata: %d labels, the limit is %d", n, MaxMetadata)
	}
	return nil
}

// Egress returns what a sandbox with a filtered network can reach; nil: nothing.
func (s *Service) Egress(ctx context.Context, caller Caller, id string) (*network.Policy, error) {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	return s.rt.Egress(ctx, id)
}

// ChangeEgress replaces what a sandbox with a filtered network can reach by what edit makes of a
// copy, and returns the new policy, which is in force. Options.MayReach permits it. A sandbox
// with another network is [runtime.ErrConflict].
func (s *Service) ChangeEgress(ctx context.Context, caller Caller, id string, edit func(*network.Policy) error) (*network.Policy, error) {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	if b.Network != runtime.NetworkFiltered {
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s has network %s, which names do not filter: create one with a policy that allows a name", id, b.Network)
	}
	return s.rt.ChangeEgress(ctx, id, func(p *network.Policy) error {
		if err := edit(p); err != nil {
			return err
		}
		if s.options().MayReach == nil {
			return runtime.Errorf(runtime.ErrDenied, "this service does not let its callers choose what a sandbox reaches")
		}
		return s.options().MayReach(&Params{SandboxID: id, Owner: b.Owner, Network: b.Network, Egress: p})
	})
}
