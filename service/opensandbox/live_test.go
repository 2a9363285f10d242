package opensandbox

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// newLive returns a command for tests, and a counter of calls of forget.
func newLive() (l *live, forgotten chan struct{}) {
	forgotten = make(chan struct{}, 1)
	l = &live{within: time.Minute, first: 1, at: 1}
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
		if err := l.send(event{Type: "stdout", Text: line}); err != nil {
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
		s := (&Handler{opts: Options{WriteLimit: time.Minute}}).newStream(w, nil)
		err := l.serve(context.Background(), s, after)
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
	for after, want := range map[int64]int{1: http.StatusGone, first - 2: http.StatusGone, 301: http.StatusBadRequest} {
		_, err := serve(after)
		if f, ok := errors.AsType[*fault](err); !ok || f.status != want {
			t.Errorf("after %d: %v, want %d", after, err, want)
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
	s := (&Handler{opts: Options{WriteLimit: time.Minute}}).newStream(httptest.NewRecorder(), nil)
	if err := l.serve(ctx, s, 0); err != nil {
		t.Fatal(err)
	}
	<-forgotten
	for n := 0; ; n++ {
		if err := l.send(event{Type: "stdout", Text: strings.Repeat("x", 32<<10)}); errors.Is(err, errGone) {
			break
		} else if n > 100 {
			t.Fatal("it is not noticed")
		}
	}
	var f *fault
	if err := l.serve(t.Context(), s, 0); !errors.As(err, &f) || f.status != http.StatusNotFound {
		t.Errorf("a client that is late: %v", err)
	}
}
