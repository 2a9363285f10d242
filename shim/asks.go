package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/wire"
)

const (
	maxWaiting  = 64  // questions at once; more are refused
	maxEqual    = 256 // accesses that wait for one question
	maxRefused  = 3   // refusals of a kind to a program: its later questions are refused unasked
	maxFatigue  = 10  // of a kind to the sandbox, in askWindow: so are all, since programs choose their names
	maxRemember = 1024
	pollLimit   = 30 * time.Second // of a client's request without news
	askWindow   = time.Minute      // of Question.Recent

	// comingLimit is how long after the start of a sandbox accesses wait for somebody to ask: who has
	// waited for the sandbox is about to connect.
	comingLimit = time.Second / 2
)

// asks are the questions of a sandbox. The zero value asks nobody; it is safe for concurrent use.
type asks struct {
	mu      sync.Mutex
	askers  map[*clientConn]bool // who can answer
	open    []*asking            // oldest first
	last    int                  // the number of the newest question
	changes int64
	still   bool          // files are not asked about: processes are to stand still
	coming  bool          // askers are about to come: see comingLimit
	changed chan struct{} // closed and replaced with each change; nil: nobody waits for one
	// who was refused how often, by kind and program, and what is not to be asked again, by kind
	// and target
	refused map[[2]string]int
	// when the sandbox was refused, by kind
	refusals map[string][]time.Time
	never    map[[2]string]bool
	recent   []time.Time // of questions, in askWindow
}

// An asking is a question that waits.
type asking struct {
	runtime.Question
	waiting int
	done    chan struct{} // closed when allowed is set
	allowed bool
	by      string // who has answered; empty: nobody
	// who is about to answer, and add a rule; nil: each asker can answer
	claimant *clientConn
}

// ask waits until q is answered, its limit is over, or ctx ends. It reports whether the access may
// go on. Equal questions are one. The caller fills in q but for its ID, times and counts.
func (a *asks) ask(ctx context.Context, q *runtime.Question, limit time.Duration) bool {
	allowed, _ := a.askWho(ctx, q, limit)
	return allowed
}

// askWho is ask, and returns who has answered.
func (a *asks) askWho(ctx context.Context, q *runtime.Question, limit time.Duration) (allowed bool, by string) {
	w := a.enter(q, limit)
	if w == nil {
		return false, ""
	}
	step.Reached("ask: waits")
	timer := time.NewTimer(time.Until(w.Until))
	defer timer.Stop()
	select {
	case <-w.done:
	case <-ctx.Done():
		a.leave(w)
	case <-timer.C:
		a.expire(w)
	}
	select {
	case <-w.done:
		return w.allowed, w.by
	default:
		return false, ""
	}
}

// enter returns the question to wait for, nil if the access is refused at once.
func (a *asks) enter(q *runtime.Question, limit time.Duration) *asking {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.askers) == 0 && !a.coming || len(q.Targets) == 0 || a.still && ofFile(q) || a.never[[2]string{q.Kind, q.Targets[0]}] ||
		a.tired(q) {
		return nil
	}
	for _, w := range a.open {
		if w.Kind == q.Kind && w.Targets[0] == q.Targets[0] && w.Need == q.Need {
			if w.waiting >= maxEqual {
				return nil
			}
			w.waiting++
			w.Count = w.waiting
			a.change()
			return w
		}
	}
	if len(a.open) >= maxWaiting {
		return nil
	}
	now := time.Now()
	a.recent = append(slices.DeleteFunc(a.recent, func(t time.Time) bool { return now.Sub(t) > askWindow }), now)
	a.recent = a.recent[max(0, len(a.recent)-maxRemember):]
	a.last++
	w := &asking{Question: *q, waiting: 1, done: make(chan struct{})}
	w.ID, w.Time, w.Until = fmt.Sprintf("q%d", a.last), now, now.Add(limit)
	w.Count, w.Recent = 1, len(a.recent)
	a.open = append(a.open, w)
	a.change()
	return w
}

// leave notes that an access waits no more.
func (a *asks) leave(w *asking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.waiting--; w.waiting == 0 {
		a.remove(w, false)
		return
	}
	w.Count = w.waiting
	a.change()
}

// expire refuses a question, unless it has ended.
func (a *asks) expire(w *asking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(w, false)
}

// remove ends a question. a.mu is held.
func (a *asks) remove(w *asking, allowed bool) {
	i := slices.Index(a.open, w)
	if i < 0 {
		return
	}
	a.open = slices.Delete(a.open, i, i+1)
	w.allowed = allowed
	close(w.done)
	a.change()
}

// change tells askers that there is news. a.mu is held.
func (a *asks) change() {
	a.changes++
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// answerable returns the question that c may answer by v. a.mu is held.
func (a *asks) answerable(c *clientConn, v *runtime.Answer) (*asking, error) {
	i := slices.IndexFunc(a.open, func(w *asking) bool { return w.ID == v.Question && (w.claimant == nil || w.claimant == c) })
	if i < 0 {
		return nil, runtime.Errorf(runtime.ErrNotFound, "question %.20q does not wait: somebody else has answered it, its time is over, or its program has ended", v.Question)
	}
	return a.open[i], a.open[i].CheckAnswer(v)
}

// claim returns a question that only c can answer from now on, until it leaves.
func (a *asks) claim(c *clientConn, v *runtime.Answer) (*runtime.Question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, err := a.answerable(c, v)
	if err != nil {
		return nil, err
	}
	w.claimant = c
	q := w.Question
	return &q, nil
}

// answer takes an answer of a client's.
func (a *asks) answer(c *clientConn, v *runtime.Answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, err := a.answerable(c, v)
	if err != nil {
		return err
	}
	if who := [2]string{w.Kind, w.Program}; v.Allow {
		delete(a.refused, who)
	} else {
		a.refused = noted(a.refused)
		a.refused[who]++
		if a.refusals == nil {
			a.refusals = map[string][]time.Time{}
		}
		last := a.refusals[w.Kind]
		a.refusals[w.Kind] = append(last[max(0, len(last)-maxFatigue+1):], time.Now())
		if v.Scope != "" && v.Scope != runtime.ScopeOnce {
			a.never = noted(a.never)
			a.never[[2]string{w.Kind, w.Targets[0]}] = true
		}
	}
	w.by = v.By
	a.remove(w, v.Allow)
	a.settle(func(w *asking) bool { return w.claimant == nil && a.tired(&w.Question) }, false)
	return nil
}

// tired reports whether so much was refused that a question is refused unasked. a.mu is held.
func (a *asks) tired(q *runtime.Question) bool {
	if a.refused[[2]string{q.Kind, q.Program}] >= maxRefused {
		return true
	}
	n := 0
	for _, at := range a.refusals[q.Kind] {
		if time.Since(at) < askWindow {
			n++
		}
	}
	return n >= maxFatigue
}

// allow ends the questions of a kind that rules allow by now.
func (a *asks) allow(kind string, now func(*runtime.Question) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(func(w *asking) bool { return w.Kind == kind && now(&w.Question) }, true)
}

// settle ends some questions. a.mu is held.
func (a *asks) settle(which func(*asking) bool, allowed bool) {
	for _, w := range slices.Clone(a.open) {
		if which(w) {
			a.remove(w, allowed)
			if allowed {
				delete(a.refused, [2]string{w.Kind, w.Program})
			}
		}
	}
}

// noted returns a map to which an entry may be added: programs choose how many there are.
func noted[V any](m map[[2]string]V) map[[2]string]V {
	if m == nil || len(m) >= maxRemember {
		return map[[2]string]V{}
	}
	return m
}

// ofFile reports whether q is about a file: its process cannot be frozen while it waits.
func ofFile(q *runtime.Question) bool { return q.Kind != runtime.AskNetwork }

// freeze ends the questions about files, and refuses later ones until thaw.
func (a *asks) freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.still = true
	a.settle(func(w *asking) bool { return ofFile(&w.Question) }, false)
}

func (a *asks) thaw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.still = false
}

// waits reports whether a question waits.
func (a *asks) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) > 0
}

// fitting returns the oldest questions that fit into a reply. a.mu is held.
func (a *asks) fitting() *[]runtime.Question {
	all, room := []runtime.Question{}, wire.MaxPayload-1024
	for _, w := range a.open {
		text, err := json.Marshal(&w.Question)
		if room -= len(text) + 1; err != nil || room < 0 {
			break
		}
		all = append(all, w.Question)
	}
	return &all
}

// waiting answers boot.OpQuestions: with the questions, once they are others than at since.
func (a *asks) waiting(c *clientConn, since int64) *boot.Reply {
	timer := time.NewTimer(pollLimit)
	defer timer.Stop()
	for {
		a.mu.Lock()
		if a.askers == nil {
			a.askers = map[*clientConn]bool{}
		}
		select {
		case <-c.gone:
			a.mu.Unlock()
			return &boot.Reply{}
		default:
			a.askers[c] = true
		}
		if a.changes != since-1 {
			reply := &boot.Reply{Seen: a.changes + 1, Questions: a.fitting()}
			a.mu.Unlock()
			return reply
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-c.gone:
			return &boot.Reply{}
		case <-timer.C:
			return &boot.Reply{Seen: since}
		}
	}
}

// left notes that a client has gone. What it was about to answer others can. With the last asker
// all questions end.
func (a *asks) left(c *clientConn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.open {
		if w.claimant == c {
			w.claimant = nil
			a.change()
		}
	}
	delete(a.askers, c)
	a.endUnasked()
}

// endUnasked ends all questions that nobody is about to answer if nobody is there to ask. a.mu is
// held.
func (a *asks) endUnasked() {
	if len(a.askers) == 0 && !a.coming {
		a.settle(func(w *asking) bool { return w.claimant == nil }, false)
	}
}

// expect has accesses wait for somebody to ask until limit is over.
func (a *asks) expect(limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.coming = true
	time.AfterFunc(limit, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.coming = false
		a.endUnasked()
	})
}
