package audit

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func entryAt(now time.Time, path string) entry {
	r := denialOf(path)
	r.Time = now
	return entry{record: r}
}

// total is how many denials entries stand for.
func total(all []entry) (n int64) {
	for _, e := range all {
		n += e.record.Count + e.record.Dropped
	}
	return n
}

func TestBucket(t *testing.T) {
	var b bucket
	took := func(now time.Time, n int) (got int) {
		for range n {
			if b.take(now, 1) {
				got++
			}
		}
		return got
	}
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{
		{0, burst}, {0, 0}, {time.Second, rate}, {500 * time.Millisecond, rate / 2}, {-time.Hour, 0}, {time.Hour, burst},
	} {
		now := b.last.Add(tt.after)
		if b.last.IsZero() {
			now = noon
		}
		if got := took(now, 2*burst); got != tt.want {
			t.Errorf("after %v: %d tokens, want %d", tt.after, got, tt.want)
		}
	}
}

// Long paths fill a log as fast as many short ones, and count as much.
func TestBucketOfLongPaths(t *testing.T) {
	var ta tally
	lines := 0
	for i := range burst {
		if ta.add(entryAt(noon, strings.Repeat("x", maxPath-8)+strconv.Itoa(i))) {
			lines++
		}
	}
	if want := burst / (maxPath / perLine); lines != want {
		t.Errorf("%d lines, want %d", lines, want)
	}
}

// Ten thousand times the same is two lines, and every one is counted.
func TestRepeatsAreOneLine(t *testing.T) {
	var ta tally
	lines := 0
	now := noon
	for range 10_000 {
		if ta.add(entryAt(now, "x")) {
			lines++
		}
		now = now.Add(100 * time.Microsecond)
	}
	if lines != 1 {
		t.Errorf("%d lines", lines)
	}
	if due := ta.due(now, false); due != nil {
		t.Errorf("told before its time: %+v", due)
	}
	due := ta.due(noon.Add(window), false)
	if len(due) != 1 || due[0].record.Count != 9_999 {
		t.Fatalf("due: got due %+v; want len(due) == 1 and due[0].record.Count == 9_999", due)
	}
	if r := due[0].record; !r.Since.Equal(noon.Add(100*time.Microsecond)) || !r.Time.Equal(now.Add(-100*time.Microsecond)) {
		t.Errorf("from %v to %v", r.Since, r.Time)
	}
	if ta.pending() {
		t.Error("something is left")
	}
	if !ta.add(entryAt(now.Add(window), "x")) {
		t.Error("after the window it has no line of its own")
	}
}

// Each reason has a line, and those that come again are counted by reason.
func TestReasonsAreNotRepeats(t *testing.T) {
	var ta tally
	for i, why := range []string{"alias.a", "core.pager", "alias.a", "core.pager", "core.pager"} {
		e := entryAt(noon, ".git/config")
		e.record.Reason = why
		if got, want := ta.add(e), i < 2; got != want {
			t.Errorf("%d: %s: a line of its own: %v", i, why, got)
		}
	}
	got := map[string]int64{}
	for _, e := range ta.due(noon.Add(window), false) {
		got[e.record.Reason] += e.record.Count
	}
	if len(got) != 2 || got["alias.a"] != 1 || got["core.pager"] != 2 {
		t.Errorf(`got %v; want len(got) == 2 and got["alias.a"] == 1 and got["core.pager"] == 2`, got)
	}
}

// What is too much is dropped; nothing is lost from the count, whatever comes.
func TestNothingIsLostFromTheCount(t *testing.T) {
	var ta tally
	const n = 20_000
	var got int64
	now := noon
	for i := range n {
		if ta.add(entryAt(now, strconv.Itoa(i*7919%3_000))) {
			got++
		}
		if i%1000 == 999 {
			got += total(ta.due(now, false))
		}
		now = now.Add(time.Millisecond)
	}
	if len(ta.open) > maxOpen {
		t.Errorf("%d kinds are followed", len(ta.open))
	}
	got += total(ta.due(now, true))
	if got != n {
		t.Errorf("%d of %d are accounted for", got, n)
	}
}

// The last line has the number of dropped denials, and their times.
func TestDropped(t *testing.T) {
	var ta tally
	for i := range burst + 3 {
		ta.add(entryAt(noon.Add(time.Duration(i)), strconv.Itoa(i)))
	}
	due := ta.due(noon.Add(time.Second), false)
	if len(due) != 1 || due[0].record.Dropped != 3 || !due[0].record.Since.Equal(noon.Add(burst)) || !due[0].record.Time.Equal(noon.Add(burst+2)) {
		t.Errorf("due: got due %+v; want len(due) == 1 and due[0].record.Dropped == 3 and due[0].record.Since.Equal(noon.Add(burst)) and due[0].record.Time.Equal(noon.Add(burst+2))",
			due)
	}
	if due := ta.due(noon.Add(2*time.Second), false); due != nil {
		t.Errorf("told twice: %+v", due)
	}
}
