package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"wolffia/internal/host/statedir"
)

// A filler lets claimants go first, unless half of a pool is gone.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		ready, keeps int
		since, low   time.Duration
		wait         time.Duration
		more         bool
	}{
		{2, 2, 0, 0, 0, false},
		{3, 2, 0, 0, 0, false},
		{0, 1, 0, 0, quietPerSandbox, true},
		{1, 2, quietPerSandbox, 0, quietPerSandbox, true},
		{1, 2, 2 * quietPerSandbox, 0, 0, true},
		{50, 100, 0, 0, 100 * quietPerSandbox, true},
		{10, 100, 40 * quietPerSandbox, 0, 60 * quietPerSandbox, true},
		{10, 100, 0, maxQuiet - quietPerSandbox, quietPerSandbox, true}, // claimants that come one after the other
		{10, 100, 0, time.Hour, 0, true},
		{10, 1000, 0, 0, maxQuiet, true},
		{10, 100, -time.Hour, 0, maxQuiet, true}, // the clock was set back
		{51, 100, 0, 0, quietTime, true},
		{99, 100, quietTime / 2, 0, quietTime / 2, true},
		{99, 100, quietTime, 0, 0, true},
		{99, 100, time.Hour, 0, 0, true},
		{99, 100, -time.Hour, 0, quietTime, true},
	} {
		if wait, more := refillDelay(c.ready, c.keeps, c.since, c.low); wait != c.wait || more != c.more {
			t.Errorf("patience: got c %+v, wait %v, more %v; want wait == %v and more == %v", c, wait, more, c.wait, c.more)
		}
	}
}

const testShape, otherShape = "0123456789abcdef", "fedcba9876543210"

// A filler sees what is claimed of its pool, also what was claimed before it waits, and that the pool
// ends; not what becomes of other pools.
func TestPoolEvents(t *testing.T) {
	d := dir{path: filepath.Join(t.TempDir(), "pools")}
	if err := d.ensure(); err != nil {
		t.Fatal(err)
	}
	for _, shape := range []string{testShape, otherShape} {
		if d.countClaim(shape) {
			t.Errorf("%s: a pool that does not exist was used", shape)
		}
		if err := d.renew(shape); err != nil {
			t.Fatal(err)
		}
		if err := d.write(shape, &record{Size: 1, IdleMS: 1}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := d.events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for what, do := range map[string]func(shape string) bool{
		"claimed": d.countClaim,
		"changed": func(shape string) bool { return d.write(shape, &record{Size: 2, IdleMS: 1}) == nil },
	} {
		if !do(otherShape) || !do(testShape) {
			t.Fatalf("%s: not done", what)
		}
		if err := e.wait(testShape, time.Hour); err != nil { // hangs unless it sees that
			t.Errorf("%s: %v", what, err)
		}
	}
	if taken, last := d.used(testShape); taken != 1 || time.Since(last) > time.Minute {
		t.Errorf("taken %d, at %v", taken, last)
	}
	if d.expire("aaaaaaaaaaaaaaaa") {
		t.Error("a pool that does not exist has expired")
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(d.claimsFile(testShape), old, old); err != nil {
		t.Fatal(err)
	}
	if !d.expire(testShape) {
		t.Error("a pool that was not used has not expired")
	}
	if err := e.wait(testShape, time.Hour); err != nil {
		t.Errorf("ended: %v", err)
	}
	if all, err := d.shapes(); err != nil || len(all) != 1 || all[0] != otherShape {
		t.Errorf("left: %v, %v", all, err)
	}
}

// A pool has one filler, and its lock is not that for starting pooled sandboxes.
func TestOneFiller(t *testing.T) {
	d := dir{path: filepath.Join(t.TempDir(), "pools")}
	if err := d.ensure(); err != nil {
		t.Fatal(err)
	}
	if d.watched(testShape) {
		t.Error("watched before")
	}
	release, err := d.try(testShape, watchPart)
	if err != nil {
		t.Fatal(err)
	}
	if !d.watched(testShape) || d.watched(otherShape) {
		t.Error("the filler's lock is not seen, or is that of all")
	}
	if _, err := d.try(testShape, watchPart); unlessHeld(err) != nil || err == nil {
		t.Errorf("a second filler: %v", err)
	}
	fill, err := d.lock(t.Context(), testShape)
	if err != nil {
		t.Fatal(err)
	}
	fill()
	release()
	if d.watched(testShape) {
		t.Error("watched after")
	}
}

// The caller that ends a pool does not wait for a filler that waits for it: one that has read the record just before.
func TestStopPoolAgainstItsFiller(t *testing.T) {
	dir, err := statedir.Open(t.TempDir() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	s := New(dir, nil)
	d, shape := s.dir, "0123456789abcdef"
	if err := errors.Join(d.ensure(), d.write(shape, &record{Size: 1})); err != nil {
		t.Fatal(err)
	}
	watching, err := d.try(shape, watchPart)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	events, err := d.events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- s.stopPool(ctx, shape) }()
	if err := events.wait(shape, 20*time.Second); err != nil { // it returns a while after the removal: stopPool has its lock by then
		t.Fatal(err)
	}
	if err := s.refill(ctx, shape); err != nil {
		t.Error(err)
	}
	watching()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
