package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/registry"
)

// A RateError is the error for what was asked too often. It is of class [runtime.ErrUnavailable].
type RateError struct {
	what  string
	After time.Duration // until it can be asked again
}

// ErrTooOften is what each [*RateError] is, for [errors.Is].
var ErrTooOften = errors.New("too often")

func (e *RateError) Error() string {
	return fmt.Sprintf("quota: %s: try again in %v", e.what, e.After.Round(time.Millisecond))
}

// Unwrap returns the class.
func (e *RateError) Unwrap() []error { return []error{ErrTooOften, runtime.ErrUnavailable} }

// An admission holds what parties are about to create, and how often they have asked. The zero value is ready to
// use, and it is safe for concurrent use.
type admission struct {
	mu      sync.Mutex
	pending map[string]*Sandbox // by id; guarded by mu
	paces   map[pace]*rate.Limiter
}

// A pace is how often a party may do something, at most perSecond times in a second.
type pace struct {
	party
	perSecond float64
	burst     int
}

// maxPaces bounds how many paces are remembered: a caller that may use all sandboxes chooses
// owners as it likes.
const maxPaces = 10000

// take returns a *RateError if p asks too often.
func (a *admission) take(p pace, what string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.paces[p]
	if l == nil {
		if a.paces == nil {
			a.paces = map[pace]*rate.Limiter{}
		}
		if len(a.paces) >= maxPaces { // keys stay: their number is that of a file
			maps.DeleteFunc(a.paces, func(p pace, _ *rate.Limiter) bool { return p.key == "" })
		}
		l = rate.NewLimiter(rate.Limit(p.perSecond), p.burst)
		a.paces[p] = l
	}
	r := l.Reserve()
	if after := r.Delay(); after > 0 {
		r.Cancel()
		return &RateError{fmt.Sprintf("%s %s too often", p.party, what), after}
	}
	return nil
}

// AdmitRequest returns a [*RateError] if the quota of an API key permits no request now.
func (s *Service) AdmitRequest(c Caller) error {
	p := party{key: c.Key}
	q := quotaOf(s.options().Quotas, p)
	if c.Key == "" || q == nil || q.Requests == 0 {
		return nil
	}
	return s.admission.take(pace{p, float64(q.Requests), q.Requests}, "sends requests")
}

// admit returns an error if a new sandbox of owner o with the limits r is more than the quota of o, or of the API key of
// ctx. Until done is called the sandbox counts as one that exists.
func (s *Service) admit(ctx context.Context, id string, o registry.Owner, r runtime.Resources) (done func(), err error) {
	rules, key := s.options().Quotas, CallerOf(ctx).Key
	if len(rules) == 0 {
		return func() {}, nil
	}
	s.admission.mu.Lock()
	defer s.admission.mu.Unlock()
	all, err := s.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	owns := map[string]*Sandbox{}
	for id, b := range s.admission.pending {
		owns[id] = b
	}
	for _, b := range all {
		if d, _ := s.describe(b); d != nil && b.Expired == "" {
			owns[b.ID] = d
		}
	}
	for _, p := range []party{{owner: o}, {key: key}} {
		q := quotaOf(rules, p)
		if q == nil {
			continue
		}
		var u usage
		for _, b := range owns {
			if p.has(b) {
				u.sandboxes, u.memory, u.disk = u.sandboxes+1, u.memory+b.Resources.Memory, u.disk+b.Resources.Disk
			}
		}
		if err := q.exceeded(p, u, &r); err != nil {
			return nil, err
		}
	}
	if s.admission.pending == nil {
		s.admission.pending = map[string]*Sandbox{}
	}
	s.admission.pending[id] = &Sandbox{Owner: o, Sandbox: &runtime.Sandbox{Resources: r, Labels: map[string]string{launch.LabelKey: key}}}
	return func() {
		s.admission.mu.Lock()
		defer s.admission.mu.Unlock()
		delete(s.admission.pending, id)
	}, nil
}

// admitPace returns a [*RateError] if the quotas of o and of the API key of ctx permit no new sandbox now.
func (s *Service) admitPace(ctx context.Context, o registry.Owner) error {
	for _, p := range []party{{owner: o}, {key: CallerOf(ctx).Key}} {
		if q := quotaOf(s.options().Quotas, p); q != nil && q.Creates > 0 {
			if err := s.admission.take(pace{p, float64(q.Creates) / time.Minute.Seconds(), q.Creates}, "creates sandboxes"); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether a sandbox is one of the party's.
func (p party) has(b *Sandbox) bool {
	if p.key != "" {
		return b.Labels[launch.LabelKey] == p.key
	}
	return b.Owner == p.owner
}
