package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
	"wolffia/wire"
)

func TestExpiry(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		is   age
		over runtime.Expiry
		next time.Duration
	}{
		{"no limit", age{}, "", 0},
		{"no limit, idle for long", age{idle: 1e6 * s}, "", 0},
		{"before the deadline", age{limited: true, left: 5 * s}, "", 5 * s},
		{"at the deadline", age{limited: true}, runtime.ExpiredTTL, 0},
		{"after it, though busy", age{limited: true, left: -s, timeout: s, busy: true}, runtime.ExpiredTTL, 0},
		{"idle for a while", age{timeout: 5 * s, idle: 2 * s}, "", 3 * s},
		{"idle for as long as it may", age{timeout: 5 * s, idle: 5 * s}, runtime.ExpiredIdle, 0},
		{"idle for longer: the machine was slow", age{timeout: 5 * s, idle: 500 * s}, runtime.ExpiredIdle, 0},
		{"busy: not before one timeout from now", age{timeout: 5 * s, busy: true, idle: 500 * s}, "", 5 * s},
		{"both, the deadline first", age{limited: true, left: 2 * s, timeout: 5 * s, idle: s}, "", 2 * s},
		{"both, idle first", age{limited: true, left: 9 * s, timeout: 5 * s, idle: s}, "", 4 * s},
		{"both over", age{limited: true, timeout: s, idle: s}, runtime.ExpiredTTL, 0},
	} {
		if over, next := tt.is.expiry(); over != tt.over || next != tt.next {
			t.Errorf("%s: %q in %v, want %q in %v", tt.name, over, next, tt.over, tt.next)
		}
	}
}

// born begins a lifetime over a relay whose guest says nothing by itself.
func born(t *testing.T, limits *statedir.Lifetime) (*lifetime, <-chan runtime.Expiry) {
	t.Helper()
	guestIn, toGuest := io.Pipe()
	fromGuest, guestOut := io.Pipe()
	t.Cleanup(func() { _, _, _ = guestIn.Close(), guestOut.Close(), toGuest.Close() })
	over := make(chan runtime.Expiry, 2)
	l := &lifetime{relay: newRelay(pair{fromGuest, toGuest}), end: func(why runtime.Expiry) { over <- why }}
	r := wire.NewReader(guestIn)
	begun := make(chan error, 1)
	go func() { begun <- l.begin(limits) }()
	if limits != nil && limits.Idle > 0 {
		f, err := r.Next()
		if err != nil || f.Type != wire.WatchBusy {
			t.Fatalf("the guest is sent %d (%v), want to be asked for its jobs", f.Type, err)
		}
		f.Release()
	}
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	return l, over
}

func ended(t *testing.T, over <-chan runtime.Expiry, want runtime.Expiry) {
	t.Helper()
	if why := wait.Receive(t, fmt.Sprintf("the end by %q", want), over); why != want {
		t.Errorf("it ended by %q, want %q", why, want)
	}
}

func limits(ttl, idle time.Duration) *statedir.Lifetime {
	l := &statedir.Lifetime{Idle: idle.Milliseconds()}
	l.Renew(ttl, statedir.Now())
	return l
}

func TestLifetimeEnds(t *testing.T) {
	const soon, long = 100 * time.Millisecond, time.Hour
	_, over := born(t, limits(soon, long))
	ended(t, over, runtime.ExpiredTTL)
	_, over = born(t, limits(long, soon))
	ended(t, over, runtime.ExpiredIdle)

	l, over := born(t, nil) // the first limit comes later
	if err := l.set(limits(soon, 0)); err != nil {
		t.Fatal(err)
	}
	ended(t, over, runtime.ExpiredTTL)
	for what, err := range map[string]error{"touch": l.touch(), "renew": l.set(limits(long, 0))} {
		if !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
	if len(over) > 0 {
		t.Error("it ended twice")
	}

	l, over = born(t, limits(long, long))
	if err := l.set(limits(soon, 0)); err != nil { // the idle timeout stays
		t.Fatal(err)
	}
	if l.limits.IdleTimeout() != long {
		t.Errorf("the idle timeout is %v", l.limits.IdleTimeout())
	}
	ended(t, over, runtime.ExpiredTTL)
}

// What runs keeps a sandbox, however long; so does a job that the guest tells of.
// What a liar tells of it keeps its own sandbox at most.
func TestBusy(t *testing.T) {
	const timeout = time.Second
	l, over := born(t, limits(0, timeout))
	r := l.relay
	due := func(busy bool) {
		t.Helper()
		if now, _ := r.usage(); now != busy {
			t.Errorf("busy is %v, want %v", now, busy)
		}
	}
	say := func(n uint32) {
		t.Helper()
		f := wire.NewFrame(wire.Busy, 0)
		f.SetLen(len(binary.LittleEndian.AppendUint32(f.Room()[:0], n)))
		if err := r.fromGuest(f); err != nil {
			t.Fatal(err)
		}
	}
	say(1)
	due(true)
	channel := r.open(&clientConn{channels: map[uint32]uint32{}, out: closedOutbox()}, 1, 0)
	say(0)
	due(true)
	r.mu.Lock() // its client goes away: it still runs
	delete(r.routes, channel)
	r.orphans[channel] = true
	r.mu.Unlock()
	due(true)
	select {
	case why := <-over:
		t.Fatalf("it ended by %q while a command ran", why)
	case <-time.After(2 * timeout): // nothing may happen
	}
	if err := r.fromGuest(wire.NewFrame(wire.Exit, channel)); err != nil {
		t.Fatal(err)
	}
	due(false)
	ended(t, over, runtime.ExpiredIdle)
	if err := r.fromGuest(wire.NewFrame(wire.Busy, 0)); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("an empty jobs frame: %v", err)
	}
}

// closedOutbox returns an Outbox that drops all.
func closedOutbox() *wire.Outbox {
	o := wire.NewOutbox(nil, nil)
	o.Close()
	return o
}
