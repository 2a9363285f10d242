package gateway

import (
	"math/bits"
	"sync"
	"time"

	"wolffia/internal/egress"
)

const (
	maxKinds = 1024 // different events; then they lose their details
	exact    = 16   // each of so many equal events is reported, then each power of two
)

// A ledger counts equal events and reports them. It is safe for concurrent use.
type ledger struct {
	report func(egress.Event)
	mu     sync.Mutex
	kinds  map[egress.Event]*tally // by the event without Time and Count
}

// A tally is how often an event occurred, and how often when it was reported.
type tally struct {
	count, reported int
	last            time.Time
}

func newLedger(report func(egress.Event)) *ledger {
	if report == nil {
		report = func(egress.Event) {}
	}
	return &ledger{report: report, kinds: map[egress.Event]*tally{}}
}

// add counts an event, whose Time and Count are not used.
func (l *ledger) add(e egress.Event) {
	e.Time, e.Count = time.Time{}, 0
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.kinds[e]
	if t == nil {
		if len(l.kinds) >= maxKinds {
			e = egress.Event{Op: e.Op, Reason: e.Reason}
			t = l.kinds[e]
		}
		if t == nil {
			t = &tally{}
			l.kinds[e] = t
		}
	}
	t.count++
	t.last = time.Now()
	if t.count <= exact || bits.OnesCount(uint(t.count)) == 1 {
		l.send(e, t)
	}
}

// flush reports all counts that differ from what was reported.
func (l *ledger) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, t := range l.kinds {
		if t.count != t.reported {
			l.send(e, t)
		}
	}
}

func (l *ledger) send(e egress.Event, t *tally) {
	t.reported = t.count
	e.Time, e.Count = t.last, t.count
	l.report(e)
}
