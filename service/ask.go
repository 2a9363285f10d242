package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"wolffia/runtime"
)

const (
	// MaxAskWait bounds the wait of [Inside.Questions].
	MaxAskWait = 55 * time.Second
	// askPatience is how long after a call of Questions the sandbox still has somebody to ask: the
	// caller answers, or calls again.
	askPatience = 15 * time.Second
)

// watches are the sandboxes whose questions callers wait for. The zero value is ready. It is safe
// for concurrent use.
type watches struct {
	mu sync.Mutex
	of map[string]*watch // by id; guarded by mu
}

// A watch is an asker of a sandbox, for the callers of Questions. watches.mu guards it.
type watch struct {
	now     []runtime.Question
	changes int64
	changed chan struct{} // closed and replaced with each change
	calls   int           // of Questions that run
	end     *time.Timer   // cancels the watch, unless a call runs
	err     error         // why it has ended
}

// Questions returns the questions of the sandbox that wait, oldest first, once they are others than
// at seen, which the last call has returned and which is 0 at first, or when the wait is over; now
// is their seen. While somebody calls it, and 15 s longer, accesses wait to be asked for.
func (i *Inside) Questions(ctx context.Context, seen int64, wait time.Duration) (all []runtime.Question, now int64, err error) {
	s := i.service
	asker, can := s.rt.(runtime.Asker)
	if !can || len(i.box.Ask) == 0 {
		return nil, 0, runtime.Errorf(runtime.ErrInvalid, "sandbox %s asks nothing: start the service with --ask", i.box.ID)
	}
	timer := time.NewTimer(min(max(wait, 0), MaxAskWait))
	defer timer.Stop()
	w := s.watches.enter(i.box.ID, asker)
	defer s.watches.leave(w)
	for {
		s.watches.mu.Lock()
		all, now, err = slices.Clone(w.now), w.changes, w.err
		changed := w.changed
		s.watches.mu.Unlock()
		if err != nil || now != seen {
			return all, now, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return all, now, nil
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// enter returns the watch of a sandbox, which it begins unless there is one. The caller leaves it.
func (a *watches) enter(id string, asker runtime.Asker) *watch {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.of[id]
	if w == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{changed: make(chan struct{}), end: time.AfterFunc(time.Hour, cancel)}
		if a.of == nil {
			a.of = map[string]*watch{}
		}
		a.of[id] = w
		go a.run(ctx, id, w, asker) // ends with the sandbox, or askPatience after the last call
	}
	w.calls++
	w.end.Stop()
	return w
}

func (a *watches) leave(w *watch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.calls--; w.calls == 0 {
		w.end.Reset(askPatience)
	}
}

// run passes the questions of a sandbox to the callers until the sandbox stops, or ctx ends.
func (a *watches) run(ctx context.Context, id string, w *watch, asker runtime.Asker) {
	tell := func(change func()) {
		a.mu.Lock()
		defer a.mu.Unlock()
		change()
		w.changes++
		close(w.changed)
		w.changed = make(chan struct{})
	}
	err := asker.Questions(ctx, id, func(all []runtime.Question) error {
		tell(func() { w.now = slices.Clone(all) })
		return nil
	})
	if err == nil {
		err = context.Cause(ctx) // for a call that begins now
	}
	tell(func() {
		w.now, w.err = nil, err
		if a.of[id] == w {
			delete(a.of, id)
		}
	})
}

// Answer answers a question of the sandbox: see [runtime.Asker]. Only an admitted caller of all
// sandboxes may, unless Options.AllowAnswers is set. runtime.ScopeAlways is
// [runtime.ErrUnsupported]: a service writes no configuration file.
func (i *Inside) Answer(ctx context.Context, a *runtime.Answer) error {
	s := i.service
	asker, can := s.rt.(runtime.Asker)
	switch {
	case !can:
		return runtime.Errorf(runtime.ErrUnsupported, "this service asks nothing")
	case !CallerOf(ctx).All && !s.options().AllowAnswers:
		return runtime.Errorf(runtime.ErrDenied, "this service does not let owners answer: answer on its host with wolffia asks answer %s, or start it with --allow-answers", i.box.ID)
	case a.Scope == runtime.ScopeAlways:
		return runtime.Errorf(runtime.ErrUnsupported, "a service writes no configuration file: answer with scope %s", runtime.ScopeSandbox)
	}
	r := &Record{Kind: RecordAnswer, Sandbox: i.box.Sandbox, Answer: a}
	if s.options().Record != nil {
		r.Question = questionOf(ctx, asker, i.box.ID, a.Question)
	}
	err := asker.Answer(ctx, i.box.ID, a)
	if err == nil {
		note(ctx, s, r)
	}
	return err
}
