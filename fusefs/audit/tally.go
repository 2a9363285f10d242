package audit

import (
	"cmp"
	"slices"
	"time"
)

// How many lines there can be: 500 at once, and 50 each second from then on. One
// with a long path counts as several: a line for each perLine bytes.
const (
	burst   = 500
	rate    = 50 // a second
	perLine = 256
)

// What is denied again within window of its first line is counted, and told in
// one line at its end. At most maxOpen kinds of denial are followed at a time;
// others have a line each.
const (
	window  = 5 * time.Second
	maxOpen = 256
)

// A bucket limits a rate. The zero bucket is full.
type bucket struct {
	used float64 // lines that cannot be written at once
	last time.Time
}

// take takes room for n lines, if there is as much.
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

// A kind is what makes two denials the same. Who was denied is no part of it:
// a build has many processes.
type kind struct {
	op, path, errno string
	level, need     uint8
}

func kindOf(r *Record) kind {
	return kind{r.Op, r.Path, r.Errno, uint8(r.Level), uint8(r.Need)}
}

// A repeat counts what followed a denial that has a line.
type repeat struct {
	first entry
	until time.Time
	count int64
	since time.Time // of count
	last  time.Time
}

// A tally decides which denials have a line, and counts all others. It knows no
// clock: times are given, and do not go back much.
type tally struct {
	bucket
	open map[kind]*repeat

	dropped             int64
	dropSince, dropLast time.Time
}

// add reports whether e is to have a line; if not it is counted.
func (t *tally) add(e entry) bool {
	now := e.record.Time
	k := kindOf(&e.record)
	if r := t.open[k]; r != nil && now.Before(r.until) {
		if r.count++; r.count == 1 {
			r.since = now
		}
		r.last = now
		return false
	}
	if !t.take(now, 1+len(e.record.Path)/perLine) {
		t.drop(now, 1)
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

// drop counts denials that have no line.
func (t *tally) drop(now time.Time, n int64) {
	if t.dropped == 0 {
		t.dropSince = now
	}
	t.dropped += n
	t.dropLast = now
}

// pending reports whether there is anything to tell, or to forget.
func (t *tally) pending() bool { return len(t.open) > 0 || t.dropped > 0 }

// due returns what was counted and is to be told now: of repeats those whose
// window is over, or all of them.
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
