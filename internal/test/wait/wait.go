// Package wait is how tests wait for what happens elsewhere, with one limit. A wait that fails says
// what it waited for, what it saw last, and where each goroutine is.
package wait

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Limit bounds every wait. It is a guard against a hang: no test is about its length.
const Limit = 3 * time.Minute

// Pauses between two looks: what is waited for may need the processor.
const (
	shortest = time.Millisecond
	longest  = 10 * time.Millisecond
)

// Poll calls so until it returns true, and reports whether it did within Limit. It is for what has no [testing.TB].
func Poll(so func() bool) bool { return Within(Limit, so) }

// Within is Poll with another limit: for what may be so, or never. It calls so at least once.
func Within(limit time.Duration, so func() bool) bool { return poll(context.Background(), limit, so) }

func poll(ctx context.Context, limit time.Duration, so func() bool) bool {
	end := time.Now().Add(limit)
	for pause := shortest; ; pause = min(2*pause, longest) {
		late := time.Now().After(end) || ctx.Err() != nil // before the last look
		if so() {
			return true
		}
		if late {
			return false
		}
		time.Sleep(pause)
	}
}

// Until waits until so returns true, and ends the test if it does not within Limit.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !poll(context.Background(), Limit, so) {
		fail(t, "%s: not so within %v", what, Limit)
	}
}

// UntilDone is Until with the end of ctx in the place of Limit.
func UntilDone(ctx context.Context, t testing.TB, what string, so func() bool) {
	t.Helper()
	if !poll(ctx, time.Hour, so) {
		fail(t, "%s: not so when the time of the test was over", what)
	}
}

// For calls look until is returns true for its result, which For returns. Otherwise it ends the test with the last result.
func For[T any](t testing.TB, what string, look func() T, is func(T) bool) T {
	t.Helper()
	return forLimit(t, Limit, what, look, is)
}

func forLimit[T any](t testing.TB, limit time.Duration, what string, look func() T, is func(T) bool) (last T) {
	t.Helper()
	if !poll(context.Background(), limit, func() bool { last = look(); return is(last) }) {
		fail(t, "%s: not so within %v; last seen: %+v", what, limit, last)
	}
	return last
}

// Equal waits until look returns want.
func Equal[T comparable](t testing.TB, what string, want T, look func() T) {
	t.Helper()
	forLimit(t, Limit, fmt.Sprintf("%s, want %+v", what, want), look, func(got T) bool { return got == want })
}

// Receive returns what comes from c, or the zero value if c is closed. It ends the test if neither happens within Limit.
func Receive[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	return receive(t, Limit, what, c)
}

func receive[T any](t testing.TB, limit time.Duration, what string, c <-chan T) (v T) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case v = <-c:
	case <-late.C:
		fail(t, "%s: nothing came within %v", what, limit)
	}
	return v
}

// fail ends the test, with the stacks of all goroutines before the reason.
func fail(t testing.TB, format string, args ...any) {
	t.Helper()
	stacks := make([]byte, 64<<10)
	t.Logf("goroutines at the end of a failed wait:\n%s", stacks[:runtime.Stack(stacks, true)])
	t.Fatalf(format, args...)
}
