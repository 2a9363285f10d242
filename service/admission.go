package service

import (
	"context"
	"maps"
	"sync"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

// An admission holds what parties are about to create, and how often they have asked. The zero
// value is ready to use, and it is safe for concurrent use.
type admission struct {
	rates   quota.Rates
	mu      sync.Mutex
	pending map[string]*Sandbox // by id; guarded by mu
}

// AdmitRequest returns a [*quota.RateError] if the quota of the caller's API key permits no request
// now.
func (s *Service) AdmitRequest(c Caller) error {
	p := quota.Party{Key: c.Key}
	return s.admission.rates.Request(quota.Of(s.options().Quotas, p), p)
}

// QuotaOf returns the quota of an owner; without one all its bounds are 0.
func QuotaOf(s *Service, o registry.Owner) quota.Quota {
	if q := quota.Of(s.options().Quotas, quota.Party{Owner: o}); q != nil {
		return *q
	}
	return quota.Quota{}
}

// admit returns an error if a new sandbox of owner o with the limits r is more than the quota of o,
// or of the API key of ctx. Until done is called the sandbox counts as one that exists.
func (a *admission) admit(ctx context.Context, s *Service, id string, o registry.Owner, r runtime.Resources) (done func(), err error) {
	rules, key := s.options().Quotas, CallerOf(ctx).Key
	if len(rules) == 0 {
		return func() {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	all, err := s.all(ctx, Caller{All: true})
	if err != nil {
		return nil, err
	}
	if a.pending == nil {
		a.pending = map[string]*Sandbox{}
	}
	has := maps.Clone(a.pending)
	for _, b := range all {
		has[b.ID] = b
	}
	for _, p := range []quota.Party{{Owner: o}, {Key: key}} {
		q := quota.Of(rules, p)
		if q == nil {
			continue
		}
		var u quota.Usage
		for _, b := range has {
			if p.Key == "" && b.Owner == p.Owner || p.Key != "" && b.Labels[launch.LabelKey] == p.Key {
				u.Add(&b.Resources)
			}
		}
		if err := q.Exceeded(p, u, &r); err != nil {
			return nil, err
		}
	}
	a.pending[id] = &Sandbox{Owner: o, Sandbox: &runtime.Sandbox{Resources: r, Labels: map[string]string{launch.LabelKey: key}}}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.pending, id)
	}, nil
}

// pace returns a [*quota.RateError] if the quotas of o and of the API key of ctx permit no new
// sandbox now.
func (a *admission) pace(ctx context.Context, s *Service, o registry.Owner) error {
	for _, p := range []quota.Party{{Owner: o}, {Key: CallerOf(ctx).Key}} {
		if err := a.rates.Create(quota.Of(s.options().Quotas, p), p); err != nil {
			return err
		}
	}
	return nil
}
