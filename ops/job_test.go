package ops

import (
	"math"
	"syscall"
	"testing"

	"wolffia/runtime"
)

// Where to read is between what is kept and the end, whatever a client asks and a sandbox says.
func TestBegin(t *testing.T) {
	at := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		start, end uint64
		asked      *uint64
		most       int
		want       uint64
	}{
		{0, 10, nil, 4, 6},
		{0, 10, nil, 40, 0},
		{8, 10, nil, 4, 8},
		{0, 10, at(3), 4, 3},
		{5, 10, at(3), 4, 5},
		{5, 10, at(30), 4, 10},
		{0, 0, at(1), 4, 0},
		{math.MaxUint64, math.MaxUint64, at(math.MaxUint64), 4, maxOffset},
		{10, 5, at(7), 4, 10}, // a lie
	} {
		got := begin(&runtime.JobStream{Start: c.start, End: c.end}, c.asked, c.most)
		if got.From != c.want || got.End > maxOffset {
			t.Errorf("begin: got c %+v, %+v; want got.From == %v and got.End <= maxOffset", c, got, c.want)
		}
	}
}

// The first byte that was sent is so many before the end, whatever was kept when the part was begun.
func TestSent(t *testing.T) {
	for _, c := range []struct{ from, end, n, said, wantFrom, wantEnd uint64 }{
		{5, 10, 5, 10, 5, 10},
		{5, 10, 5, 15, 10, 15}, // more was dropped meanwhile
		{5, 10, 0, 10, 10, 10},
		{5, 10, 8, 13, 5, 13},
		{5, 10, 5, 0, 5, 10}, // lies
		{5, 10, 5, math.MaxUint64, maxOffset - 5, maxOffset},
	} {
		p := Part{From: c.from, End: c.end}
		if p.sent(c.n, c.said); p.From != c.wantFrom || p.End != c.wantEnd {
			t.Errorf("got c %+v, p.From %d, p.End %d; want p.From == %d and p.End == %d", c, p.From, p.End, c.wantFrom, c.wantEnd)
		}
	}
}

func TestNamedJob(t *testing.T) {
	all := []*runtime.Job{{ID: "1", Name: "a"}, {ID: "2"}, {ID: "3", Name: "a"}}
	for key, want := range map[string]string{"1": "1", "2": "2", "a": "3", "": "", "b": ""} {
		got := ""
		if j := named(all, key); j != nil {
			got = j.ID
		}
		if got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

func TestSignal(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "sigint": syscall.SIGINT, "SIGKILL": syscall.SIGKILL, "": 0, "SIG": 0, "9": 0, "TERM ": 0} {
		if got := Signal(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
