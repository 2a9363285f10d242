package wait

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A spy is a test that notes how it ends.
type spy struct {
	testing.TB
	log, fatal string
}

func (s *spy) Helper() {}

func (s *spy) Logf(format string, args ...any) { s.log += fmt.Sprintf(format, args...) }

func (s *spy) Fatalf(format string, args ...any) {
	s.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// spied runs do, and returns how the test ended.
func spied(do func(t *spy)) *spy {
	s, done := &spy{}, make(chan struct{})
	go func() {
		defer close(done)
		do(s)
	}()
	<-done
	return s
}

// A wait ends when it is so, and one that fails names its object, what it saw last, and where this test is.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, full := make(chan int), make(chan int, 1)
		close(closed)
		full <- 7
		n := 0
		count := func() int { n++; return n }
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, tt := range map[string]struct {
			do   func(t *spy)
			want string // part of the reason; empty: it succeeds
		}{
			"so at once": {func(t *spy) { Until(t, "a", func() bool { return true }) }, ""},
			"so at last": {func(t *spy) {
				end := time.Now().Add(Limit)
				Until(t, "a", func() bool { return !time.Now().Before(end) })
			}, ""},
			"never so":         {func(t *spy) { Until(t, "the cat", func() bool { return false }) }, "the cat: not so within 3m"},
			"not in its time":  {func(t *spy) { UntilDone(short, t, "the dog", func() bool { return false }) }, "the dog: not so"},
			"a value":          {func(t *spy) { n = 0; t.log = fmt.Sprint(For(t, "n", count, func(n int) bool { return n == 5 })) }, ""},
			"not the value":    {func(t *spy) { For(t, "n", func() int { return 42 }, func(n int) bool { return n == 5 }) }, "last seen: 42"},
			"equal":            {func(t *spy) { n = 0; Equal(t, "n", 3, count) }, ""},
			"not equal":        {func(t *spy) { Equal(t, "n", 3, func() int { return 4 }) }, "n, want 3: not so within 3m0s; last seen: 4"},
			"something came":   {func(t *spy) { t.log = fmt.Sprint(Receive(t, "c", full)) }, ""},
			"a channel closed": {func(t *spy) { Receive(t, "c", closed) }, ""},
			"nothing came":     {func(t *spy) { Receive(t, "the answer", make(chan int)) }, "the answer: nothing came within 3m"},
		} {
			got := spied(tt.do)
			switch {
			case tt.want == "" && got.fatal != "":
				t.Errorf("%s: fails: %s", name, got.fatal)
			case !strings.Contains(got.fatal, tt.want):
				t.Errorf("%s: fails with %q, want %q", name, got.fatal, tt.want)
			case tt.want != "" && !strings.Contains(got.log, "TestWaits"):
				t.Errorf("%s: the log has no stack of this test: %s", name, got.log)
			}
			if want := map[string]string{"a value": "5", "something came": "7"}[name]; want != "" && got.log != want {
				t.Errorf("%s: returns %s, want %s", name, got.log, want)
			}
		}
	})
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if Poll(func() bool { return false }) {
			t.Error("Poll returns true for what is never so")
		}
		if took := time.Since(begun); took < Limit || took > Limit+time.Second {
			t.Errorf("Poll gives up after %v, want %v", took, Limit)
		}
		if !Poll(func() bool { return time.Since(begun) > Limit+time.Minute }) {
			t.Error("Poll returns false for what becomes so")
		}
	})
}
