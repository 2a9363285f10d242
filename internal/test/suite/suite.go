// Package suite is what the conformance suites share: bounds of a test, checks, waiting.
package suite

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/wait"
)

// Limit bounds every wait for something that should happen at once.
const Limit = wait.Limit

// A T is a test with a context that bounds all it does. Its methods that fail
// the test at once are for the test's own goroutine.
type T struct {
	testing.TB
	Ctx context.Context
}

// New bounds a test, which may have many waits.
func New(t testing.TB) T {
	ctx, cancel := context.WithTimeout(context.Background(), 4*Limit) // some take five minutes beside all others on a slow machine
	t.Cleanup(cancel)
	return T{t, ctx}
}

// OK ends the test unless err is nil.
func (t T) OK(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Wrong checks that err is of the class, and says something.
func (t T) Wrong(what string, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("%s: error is %v, want class %q", what, err, class)
	} else if strings.TrimSpace(err.Error()) == "" {
		t.Errorf("%s: the error says nothing", what)
	}
}

// Within waits for done.
func (t T) Within(what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-t.Ctx.Done():
		t.Fatalf("%s: it hangs", what)
	}
}

// Until asks again and again, until it is so.
func (t T) Until(what string, so func() bool) {
	t.Helper()
	wait.UntilDone(t.Ctx, t, what, so)
}

// Timeouts has f try a command with a timeout of its own, and with longer ones
// as long as it says that the command had not come to where it waits: no test
// knows how slow a host is.
func Timeouts(f func(timeout time.Duration) (came bool)) {
	for timeout := 700 * time.Millisecond; timeout < Limit/4 && !f(timeout); timeout *= 4 {
	}
}

// Expect reads exactly want.
func (t T) Expect(r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	done := make(chan error, 1)
	go func() { // ends with the stream
		_, err := io.ReadFull(r, got)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil || string(got) != want {
			t.Fatalf("read %q (%v), want %q", got, err, want)
		}
	case <-t.Ctx.Done():
		t.Fatalf("%q does not come", want)
	}
}

// All reads a stream to its end.
func (t T) All(r io.Reader) string {
	t.Helper()
	var b []byte
	var err error
	done := make(chan struct{})
	go func() { // ends with the stream
		b, err = io.ReadAll(r)
		close(done)
	}()
	t.Within("read a stream", done)
	if err != nil {
		t.Errorf("read a stream: %v", err)
	}
	return string(b)
}

// Collect runs f, which sends on a channel and closes it, and returns all that
// came and f's error.
func (t T) Collect(f func(output chan<- []byte) error) (string, error) {
	t.Helper()
	output, ended := make(chan []byte), make(chan error, 1)
	go func() { ended <- f(output) }() // ends with f
	var got strings.Builder
	for {
		select {
		case b, open := <-output:
			if !open {
				return got.String(), <-ended
			}
			got.Write(b)
		case <-t.Ctx.Done():
			t.Fatal("the output is not closed")
		}
	}
}

// AtOnce calls f n times at the same time and returns what it said.
func AtOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}
