package audit

import (
	"cmp"
	"slices"
	"time"
)

// The log takes 500 lines at once, and 50 each second from then on. A line with a long path or
// reason counts as one for each perLine bytes of them.
const (
	burst   = 500
	rate    = 50 // a second
	perLine = 256
)

// Denials of the same kind within window of a line are counted, in one more line at its end. At
// most maxOpen kinds are counted at a time; others have a line each.
const (
	window  = 5 * time.Second
	maxOpen = 256
)

// A bucket is a token bucket. The zero bucket is full.
type bucket struct {
	used float64 // missing tokens
	last time.Time
}

// take takes n tokens and reports true if there are as many.
func (b *bucket) take(now time.Time, n int) bool {
	if d := now.Sub(b.last); d > 0 {
		b.used = max(0, b.used-rate*d.Seconds())
		b.last = now
	}
	if b.used+float64(n) > burst {
		return false
	}
	b.used += float64(n)
	return true
}

// A kind identifies denials that are counted together, whatever the process: a build has many.
type kind struct {
	op, path, errno string
	asked, by       string
	reason          string // one file can have many, such as git's configuration
	level, need     uint8
	host            Host
}

func kindOf(r *Record) kind {
	k := kind{op: r.Op, path: r.Path, errno: r.Errno, reason: r.Reason, level: uint8(r.Level), need: uint8(r.Need)}
	k.asked, k.by = r.Asked, r.By
	if r.Host != nil {
		k.host = *r.Host
	}
	return k
}

// A repeat counts the denials of a kind after the first, which has a line.
type repeat struct {
	first entry
	until time.Time
	count int64
	since time.Time // of the first in count
	last  time.Time
}

// A tally decides which denials get a line, and counts all others. Times are arguments, and do not
// go back much.
type tally struct {
	bucket
	open map[kind]*repeat

	dropped             int64
	dropSince, dropLast time.Time
}

// add reports whether e gets a line; if not, add counts it.
func (t *tally) add(e entry) bool {
	now := e.record.Time
	k := kindOf(&e.record)
	if r := t.open[k]; r != nil && now.Before(r.until) {
		if r.count == 0 {
			r.since = now
		}
		r.count += e.record.Count
		r.last = now
		return false
	}
	if !t.take(now, 1+(len(e.record.Path)+len(e.record.Reason))/perLine) {
		t.drop(now, e.record.Count)
		return false
	}
	if t.open[k] == nil && len(t.open) < maxOpen {
		if t.open == nil {
			t.open = map[kind]*repeat{}
		}
		t.open[k] = &repeat{first: e, until: now.Add(window)}
	}
	return true
}

// drop counts n denials without a line.
func (t *tally) drop(now time.Time, n int64) {
	if t.dropped == 0 {
		t.dropSince = now
	}
	t.dropped += n
	t.dropLast = now
}

// pending reports whether due will have something to do.
func (t *tally) pending() bool { return len(t.open) > 0 || t.dropped > 0 }

// due returns the lines for counted repeats: for those whose window is over, or with all for every
// repeat.
func (t *tally) due(now time.Time, all bool) []entry {
	var out []entry
	for k, r := range t.open {
		if !all && now.Before(r.until) {
			continue
		}
		delete(t.open, k)
		if r.count > 0 {
			e := r.first
			e.record.Time, e.record.Since, e.record.Count = r.last, r.since, r.count
			out = append(out, e)
		}
	}
	if t.dropped > 0 {
		out = append(out, entry{record: Record{Time: t.dropLast, Since: t.dropSince, Dropped: t.dropped}})
		t.dropped = 0
	}
	slices.SortStableFunc(out, func(a, b entry) int {
		return cmp.Or(a.record.Time.Compare(b.record.Time), cmp.Compare(a.record.Path, b.record.Path))
	})
	return out
}
