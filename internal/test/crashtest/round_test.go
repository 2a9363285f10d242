package crashtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/docker"
)

// A round is one operation, and whom to kill when.
type round struct {
	operation *operation
	at        moment        // the zero moment: after a time
	after     time.Duration // since the operation has begun
	victim    string        // empty: none
}

func (r *round) String() string {
	when := r.at.String()
	if r.at == (moment{}) {
		when = r.after.String()
	}
	return fmt.Sprintf("%s, %s, %s", r.operation.name, when, r.victim)
}

// do does a round, and reports whether its victim was there to be killed.
func (w *world) do(r *round) (killed bool) {
	w.Helper()
	w.T = suite.New(w.TB)
	op := r.operation
	s := op.prepare(w)
	w.steps.begin(func(a *arrival) bool { return a.sandbox != w.bystander && a.moment == r.at })
	defer w.steps.end()
	c := op.begin(w, &s)
	var late <-chan time.Time
	if r.at == (moment{}) {
		late = time.After(r.after)
	}
	e := &end{}
	select {
	case a := <-w.steps.held:
		killed = w.strike(r.victim, c, e)
		a.release()
	case <-late:
		killed = w.strike(r.victim, c, e)
	case <-c.done:
	case <-time.After(wait.Limit):
		w.Fatalf("it hangs; there are %v", processes(w.TB))
	}
	w.ends(op.name, c.done)
	w.steps.end()
	e.subject, e.ok, e.answer = s, c.ok, c.answer
	if s.was != nil || e.callerKilled {
		c.end(w)
	}
	if !e.ok && !e.callerKilled && (!e.partKilled || slices.Contains(mustSucceed, op.name)) {
		w.Fatalf("it fails: %s", e.answer)
	}
	w.compareAfter(r, e)
	return killed
}

// compareAfter compares what is there after an operation with what may be.
func (w *world) compareAfter(r *round, e *end) {
	w.Helper()
	switch {
	case r.operation.judge != nil:
		r.operation.judge(w, r, e)
	case e.was != nil:
		w.judgeService(r, e)
	default:
		w.judge(r, e)
	}
}

// strike kills the victim, and notes what it was.
func (w *world) strike(victim string, c *call, e *end) (killed bool) {
	w.Helper()
	all := processes(w.TB)
	var who []proc
	if victim == theCaller {
		who = append(who, c.proc)
		e.callerKilled = true
	}
	for _, id := range w.subjects() {
		for name, p := range parts(all, id) {
			if name == victim || victim == allParts {
				who = append(who, p)
			}
		}
	}
	for _, p := range who {
		err := p.kill()
		if err == nil {
			killed = true
		} else if victim != allParts && !errors.Is(err, errGone) {
			w.Errorf("kill %v: %v", p, err)
		}
	}
	e.callerKilled = e.callerKilled && killed
	e.partKilled = killed && !e.callerKilled
	e.replaced = e.partKilled && victim == theShim && w.backend.name == docker.Name
	return killed
}

// judge compares what is there with what may be, after a command line.
func (w *world) judge(r *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	id, state := w.allowed(rt, r, e)
	if r.operation.check != nil {
		r.operation.check(w, rt, e, id, state)
	}
	if state != none {
		err := w.whole(rt, id, state, theOwner)
		for end := time.Now().Add(suite.Limit / 4); err != nil && e.callerKilled && time.Now().Before(end); {
			// What it has asked for may be on its way.
			if id, state = w.allowed(rt, r, e); state == none {
				err = nil
			} else {
				err = w.whole(rt, id, state, theOwner)
			}
		}
		w.OK(err)
	}
	if state != none {
		w.OK(rt.Destroy(w.Ctx, id))
	}
	w.nothing(rt)
}

// may is the states that the sandbox may have. What has failed since a shim was
// killed may have left it running, with another shim.
func (r *round) may(e *end) []runtime.State {
	may := r.operation.after(e)
	if e.replaced && !e.ok {
		may = append(may, runtime.StateRunning)
	}
	return may
}

// allowed returns the one sandbox there is beside the bystander, when it is as it
// may be: at once, or when those who were not killed have come to know of it.
func (w *world) allowed(rt *local.Runtime, r *round, e *end) (id string, state runtime.State) {
	w.Helper()
	may := r.may(e)
	for end := time.Now().Add(suite.Limit / 2); ; {
		states := w.settled(rt)
		delete(states, w.bystander)
		id, state = e.id, none
		for one, its := range states {
			if id != "" && id != one || len(states) > 1 {
				w.Fatalf("there are %v", states)
			}
			id, state = one, its
		}
		if slices.Contains(may, state) {
			return id, state
		}
		if !e.callerKilled && !e.partKilled || time.Now().After(end) {
			w.Fatalf("the sandbox is %q, and may be %q; the operation: %v, %q", state, may, e.ok, e.answer)
		}
	}
}

// judgeService compares what is there, and what a service that is started now
// knows, with what may be.
func (w *world) judgeService(r *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	if e.partKilled {
		w.settled(rt)
	}
	s := w.openService(rt)
	defer s.Close()
	states := w.settled(rt)
	if got := w.find(s, another); got != w.bystander {
		w.Fatalf("the bystander's owner has %q", got)
	}
	id := w.find(s, theOwner)
	state := states[id]
	if there := w.subjects(); id == "" && len(there) > 0 || id != "" && !slices.Equal(there, []string{id}) {
		w.Fatalf("there are %v, the owner has %q", there, id)
	}
	if may := r.may(e); !slices.Contains(may, state) {
		w.Fatalf("the sandbox is %q, and may be %q; the operation: %v, %q", state, may, e.ok, e.answer)
	}
	if e.ok && state != none && r.operation.check == nil && id != e.answer {
		w.Fatalf("the owner has %s, acknowledged was %s", id, e.answer)
	}
	if r.operation.check != nil {
		r.operation.check(w, rt, e, id, state)
	}
	m, made, err := s.Owned().EnsureSandbox(w.Ctx, theOwner, nil)
	if err != nil || made != (state != runtime.StateRunning) {
		w.Fatalf("ensure: %+v, %v, %v; it was %q", m, made, err, state)
	}
	w.OK(w.whole(rt, m.SandboxID, runtime.StateRunning, theOwner))
	w.OK(s.Owned().DestroySandbox(w.Ctx, theOwner, m.SandboxID))
	w.nothing(rt)
}

// survey does an operation without a kill, and returns the rounds that there can
// be of it, in the order of its steps, and how long it takes.
func (w *world) survey(op *operation) (rounds []*round, takes time.Duration) {
	w.Helper()
	w.T = suite.New(w.TB)
	s := op.prepare(w)
	seen := 0
	w.steps.begin(func(a *arrival) bool { return a.sandbox != w.bystander && strings.HasPrefix(a.name, op.steps) })
	start := time.Now()
	c := op.begin(w, &s)
	look := func(a *arrival) {
		seen++
		all := processes(w.TB)
		victims := map[string]bool{theCaller: true}
		for _, id := range w.subjects() {
			for name := range parts(all, id) {
				victims[name], victims[allParts] = true, true
			}
		}
		a.release()
		for _, v := range []string{theCaller, theShim, theTree, theUsr, theBackend, theGuest, theKeeper, allParts} {
			if victims[v] {
				rounds = append(rounds, &round{operation: op, at: a.moment, victim: v})
			}
		}
	}
	for ended := c.done; ; {
		select {
		case a := <-w.steps.held:
			look(a)
			continue
		case <-ended:
			takes, ended = time.Since(start), nil
			continue
		case <-time.After(50 * time.Millisecond): // what comes later is not the operation's
			if ended != nil {
				continue
			}
		case <-w.Ctx.Done():
			w.Fatalf("%s: it hangs", op.name)
		}
		break
	}
	w.steps.end()
	e := &end{subject: s, ok: c.ok, answer: c.answer}
	if !e.ok || seen == 0 {
		w.Fatalf("%s: %s; %d steps", op.name, e.answer, seen)
	}
	r := &round{operation: op}
	if s.was != nil {
		c.end(w)
	}
	w.compareAfter(r, e)
	return rounds, takes
}
