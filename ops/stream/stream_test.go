package stream

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A testEvent is its type, and a text.
type testEvent struct{ Type, Text string }

func (e testEvent) AppendFrame(b []byte, n int64, _ time.Time) ([]byte, error) {
	return fmt.Appendf(b, "{\"type\":%q,\"text\":%q,\"eid\":%d}\n\n", e.Type, e.Text, n), nil
}

var pong = testEvent{Type: "ping"}

// A tape is a ResponseWriter that keeps what is written, and counts.
type tape struct {
	mu      sync.Mutex
	text    strings.Builder
	writes  int
	flushed chan string // what was written by each flush
}

func (*tape) Header() http.Header              { return http.Header{} }
func (*tape) WriteHeader(int)                  {}
func (*tape) SetWriteDeadline(time.Time) error { return nil }
func (t *tape) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	return t.text.Write(b)
}

func (t *tape) FlushError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushed <- t.text.String()
	return nil
}

func (t *tape) now() (text string, writes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String(), t.writes
}
func newTape() *tape { return &tape{flushed: make(chan string, 100)} }
func kinds(text string) (all string) {
	for _, f := range strings.Split(text, `"type":"`)[1:] {
		k, _, _ := strings.Cut(f, `"`)
		all += k + " "
	}
	return strings.TrimSpace(all)
}

// soon has do use a stream for less time than helloPause, after which the first events are sent by themselves.
func soon(t *testing.T, do func(*Stream[testEvent])) (*Stream[testEvent], *tape) {
	t.Helper()
	for range 100 {
		w := newTape()
		s := NewLive(w, time.Minute, pong, func() {})
		begun := time.Now()
		if do(s); time.Since(begun) < helloPause {
			return s, w
		}
	}
	t.Fatalf("it takes %v each time", helloPause)
	return nil, nil
}

// A command that ends at once is one message: the client and the server take a multiple of
// its time for each.
func TestShortCommandIsOneMessage(t *testing.T) {
	s, w := soon(t, func(s *Stream[testEvent]) {
		s.Run()
		s.Greet(testEvent{Type: "init", Text: "id"}, pong)
		s.Last(testEvent{Type: "execution_complete"})
	})
	if text, writes := w.now(); kinds(text) != "init ping execution_complete" || writes != 1 || len(w.flushed) != 0 {
		t.Errorf("%d writes, %d flushes: %s", writes, len(w.flushed), text)
	}
	if s.Send(pong) == nil || s.beat() == nil {
		t.Error("something is sent after the end")
	}
	_, w = soon(t, func(s *Stream[testEvent]) {
		s.Greet(testEvent{Type: "init", Text: "id"}, pong)
		s.Run()
		if err := s.Send(testEvent{Type: "stdout"}, testEvent{Type: "stdout"}); err != nil {
			t.Fatal(err)
		}
		s.Last(testEvent{Type: "error"})
	})
	if text, writes := w.now(); kinds(text) != "init ping stdout stdout error" || writes != 2 || len(w.flushed) != 1 {
		t.Errorf("%d writes, %d flushes: %s", writes, len(w.flushed), text)
	}
}

// The first events of a command that says nothing do not wait for it, but for its start.
func TestSilentCommandGreets(t *testing.T) {
	for _, order := range []string{"run greet", "greet run"} {
		w := newTape()
		s := NewLive(w, time.Minute, pong, func() {})
		for _, what := range strings.Fields(order) {
			if what == "run" {
				s.Run()
			} else {
				s.Greet(testEvent{Type: "init", Text: "id"}, pong)
			}
		}
		if got := kinds(<-w.flushed); got != "init ping" {
			t.Errorf(`%s: got %q, want "init ping"`, order, got)
		}
		s.Over()
	}
	// One that cannot be started has said nothing, so that its error can have a status.
	w := newTape()
	s := NewLive(w, time.Minute, pong, func() {})
	s.Greet(testEvent{Type: "init", Text: "id"}, pong)
	s.Over()
	if text, _ := w.now(); text != "" || s.running.Load() {
		t.Errorf("it says %q", text)
	}
}
