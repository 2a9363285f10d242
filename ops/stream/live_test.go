package stream

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/runtime"
)

// newLive returns a command for tests, and a counter of calls of forget.
func newLive() (l *Live[testEvent], forgotten chan struct{}) {
	forgotten = make(chan struct{}, 1)
	l = &Live[testEvent]{within: time.Minute, first: 1, at: 1}
	l.change = sync.NewCond(&l.mu)
	l.forget = func() { l.drop(); forgotten <- struct{}{} }
	l.timer = time.AfterFunc(time.Hour, l.forget)
	l.timer.Stop()
	return l, forgotten
}

// What a client has not got waits; what it has got is kept up to a limit, and then lost.
func TestLive(t *testing.T) {
	l, _ := newLive()
	line := strings.Repeat("x", 32<<10)
	add := func() {
		if err := l.Send(testEvent{Type: "stdout", Text: line}); err != nil {
			t.Error(err)
		}
	}
	n := 0
	for ; l.ahead <= aheadEvents; n++ { // the next one waits
		add()
	}
	go func() { // ends with all events
		for ; n < 300; n++ {
			add()
		}
		l.end()
	}()
	serve := func(after int64) (string, error) {
		w := httptest.NewRecorder()
		s := New[testEvent](w, time.Minute)
		err := l.Serve(context.Background(), s, after)
		return w.Body.String(), err
	}
	text, err := serve(0)
	if n := strings.Count(text, "\n\n"); err != nil || n != 300 {
		t.Fatalf("%d events, %v", n, err)
	}
	l.mu.Lock()
	first, size := l.first, l.size
	l.mu.Unlock()
	if size > keptEvents || size < keptEvents/2 || first < 100 {
		t.Errorf("%d bytes from event %d on are kept", size, first)
	}
	for after, want := range map[int64]error{1: LostError(first - 1), first - 2: LostError(first - 1), 301: runtime.ErrInvalid} {
		if _, err := serve(after); !errors.Is(err, want) {
			t.Errorf("after %d: %v, want %v", after, err, want)
		}
	}
	if text, err := serve(first - 1); err != nil || strings.Count(text, "\n\n") != int(301-first) || !strings.Contains(text, `"eid":300`) {
		t.Errorf("the rest again: %d bytes, %v", len(text), err)
	}
	if text, err := serve(300); err != nil || text != "" {
		t.Errorf("nothing is left: %q, %v", text, err)
	}
}

// Without a client a command is forgotten, and nothing waits any more.
func TestLiveForgotten(t *testing.T) {
	l, forgotten := newLive()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.within = time.Millisecond
	s := New[testEvent](httptest.NewRecorder(), time.Minute)
	if err := l.Serve(ctx, s, 0); err != nil {
		t.Fatal(err)
	}
	<-forgotten
	for n := 0; ; n++ {
		if err := l.Send(testEvent{Type: "stdout", Text: strings.Repeat("x", 32<<10)}); errors.Is(err, errGone) {
			break
		} else if n > 100 {
			t.Fatal("it is not noticed")
		}
	}
	if err := l.Serve(t.Context(), s, 0); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("a client that is late: %v", err)
	}
}
