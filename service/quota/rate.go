package quota

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"wolffia/runtime"
)

// ErrTooOften is what each [*RateError] is, for [errors.Is].
var ErrTooOften = errors.New("too often")

// A RateError is the error for what was asked too often. It is of class [runtime.ErrUnavailable].
type RateError struct {
	what  string
	After time.Duration // until it can be asked again
}

func (e *RateError) Error() string {
	return fmt.Sprintf("quota: %s: try again in %v", e.what, e.After.Round(time.Millisecond))
}

// Unwrap returns [ErrTooOften] and the class.
func (e *RateError) Unwrap() []error { return []error{ErrTooOften, runtime.ErrUnavailable} }

// Rates remember how often parties have asked. The zero value is ready to use. It is safe for concurrent use.
type Rates struct {
	mu  sync.Mutex
	all map[pace]*rate.Limiter
}

// A pace is how often a party may do something.
type pace struct {
	Party
	each  time.Duration
	burst int
}

// maxPaces bounds how many paces are remembered: a caller that may use all sandboxes chooses
// owners as it likes.
const maxPaces = 10000

// Request returns a [*RateError] if p may send no request now. q may be nil.
func (r *Rates) Request(q *Quota, p Party) error {
	return r.take(pace{p, time.Second, cmp.Or(q, new(Quota)).Requests}, "sends requests")
}

// Create returns a [*RateError] if p may create no sandbox now. q may be nil.
func (r *Rates) Create(q *Quota, p Party) error {
	return r.take(pace{p, time.Minute, cmp.Or(q, new(Quota)).Creates}, "creates sandboxes")
}

func (r *Rates) take(p pace, what string) error {
	if p.burst == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.all[p]
	if l == nil {
		if r.all == nil {
			r.all = map[pace]*rate.Limiter{}
		}
		if len(r.all) >= maxPaces { // keys stay: their number is that of a file
			maps.DeleteFunc(r.all, func(p pace, _ *rate.Limiter) bool { return p.Key == "" })
		}
		l = rate.NewLimiter(rate.Every(p.each/time.Duration(p.burst)), p.burst)
		r.all[p] = l
	}
	if turn := l.Reserve(); turn.Delay() > 0 {
		defer turn.Cancel()
		return &RateError{fmt.Sprintf("%s %s too often", p.Party, what), turn.Delay()}
	}
	return nil
}
