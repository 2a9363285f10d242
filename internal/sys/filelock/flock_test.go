package filelock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// One has the lock; others get it when it is released, or give up with their reason.
func TestFlock(t *testing.T) {
	dir := t.TempDir()
	release, err := Flock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*flockPoll, late)
	defer cancel()
	if _, err := Flock(ctx, dir); !errors.Is(err, late) {
		t.Fatalf("%v, want %v", err, late)
	}
	got := make(chan error, 1)
	go func() { // ends when it has the lock
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		second, err := Flock(ctx, dir)
		if err == nil {
			second()
		}
		got <- err
	}()
	release()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	release() // twice is fine
	one, err := FlockShared(t.Context(), dir)
	two, err2 := FlockShared(t.Context(), dir)
	if err != nil || err2 != nil {
		t.Fatalf("%v, %v", err, err2)
	}
	one()
	if _, err := TryFlock(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("%v, want %v", err, ErrHeld)
	}
	two()
	if release, err = TryFlock(dir); err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := Flock(t.Context(), dir+"/absent"); err == nil {
		t.Error("a directory that does not exist has a lock")
	}
}
