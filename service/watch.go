package service

import (
	"context"
	"slices"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/runtime"
)

// A Watch is what a page needs that shows the sandboxes of a service. It is safe for concurrent
// use.
type Watch struct{ s *Service }

// WatchOf returns the Watch of a service.
func WatchOf(s *Service) Watch { return Watch{s} }

// AppliesChanges reports whether callers may change the host's directory: Options.AllowApply.
func (w Watch) AppliesChanges() bool { return w.s.options().AllowApply }

// Answers reports whether a caller may answer questions: see [Inside.Answer].
func (w Watch) Answers(caller Caller) bool { return caller.All || w.s.options().AllowAnswers }

// Usage returns what running sandboxes of all owners use, by their ids; those whose use is not
// known are left out.
func (w Watch) Usage(ctx context.Context) map[string]runtime.Usage { return w.s.rt.Usage(ctx) }

// DiskUsage returns how many bytes of the disk a sandbox of any owner takes, as far as a second
// suffices to count them.
func (w Watch) DiskUsage(ctx context.Context, id string) (int64, error) {
	bytes, _, err := w.s.diskUsage(ctx, id)
	return bytes, err
}

// Rules is [Inside.Rules] of a sandbox that need not run.
func (w Watch) Rules(ctx context.Context, caller Caller, id, name string) (*Rules, error) {
	b, err := w.s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	return rulesOf(ctx, w.s, b, name)
}

// A Tail has the denials of one sandbox as they come. It is not safe for concurrent use.
type Tail struct {
	log   *audit.Logs
	since time.Time
	// Denied and Refused are how many accesses the log has: of the codebase, and of the network.
	Denied, Refused int
}

// Tail returns a Tail of what is denied from a time on. The caller closes it.
func (w Watch) Tail(ctx context.Context, caller Caller, id string, since time.Time) (*Tail, error) {
	if _, err := w.s.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	log, _, err := w.s.rt.Audit(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Tail{log: log, since: since}, nil
}

// maxTail is how many denials Next returns.
const maxTail = 100

// Next returns what was denied since the last call, the newest hundred of it.
func (t *Tail) Next() (list []Denied, err error) {
	err = t.log.More(func(r audit.Record) error {
		if len(list) == 2*maxTail {
			list = slices.Delete(list, 0, maxTail)
		}
		if n := int(max(r.Count, r.Dropped)); r.Host != nil {
			t.Refused += n
		} else {
			t.Denied += n
		}
		if !r.Time.Before(t.since) {
			list = append(list, publicDenied(&r))
		}
		return nil
	})
	return slices.Delete(list, 0, max(0, len(list)-maxTail)), err
}

// Close closes the log.
func (t *Tail) Close() error { return t.log.Close() }
