package statedir_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// Within a boot no process can set the clock that counts; after another the time of
// day counts, and does not make a lifetime longer than it was.
func TestLeft(t *testing.T) {
	const made, booted = 1_700_000_000_000, 5_000
	var l statedir.Lifetime
	l.Renew(time.Hour, statedir.Moment{Wall: made, BootID: "one", Boot: booted})
	for _, tt := range []struct {
		name       string
		boot       string
		wall, past time.Duration // since it was made
		left       time.Duration
	}{
		{"at once", "one", 0, 0, time.Hour},
		{"later", "one", time.Minute, time.Minute, 59 * time.Minute},
		{"the clock was put forward", "one", 1000 * time.Hour, time.Minute, 59 * time.Minute},
		{"the clock was put back", "one", -1000 * time.Hour, 2 * time.Hour, -time.Hour},
		{"another boot", "two", 20 * time.Minute, -4 * time.Second, 40 * time.Minute},
		{"another boot, with a clock that began anew", "two", -1000 * time.Hour, -4 * time.Second, time.Hour},
		{"another boot, long after", "two", 2 * time.Hour, -4 * time.Second, -time.Hour},
		{"a boot that is not known", "", 20 * time.Minute, 0, 40 * time.Minute},
	} {
		now := statedir.Moment{Wall: made + tt.wall.Milliseconds(), BootID: tt.boot, Boot: booted + tt.past.Milliseconds()}
		if left, limited := l.Left(now); left != tt.left || !limited {
			t.Errorf("%s: %v is left (%v), want %v", tt.name, left, limited, tt.left)
		}
		want := now.Wall + tt.left.Milliseconds()
		if at := l.Deadline(now).UnixMilli(); at != want {
			t.Errorf("%s: it is over at %d, want %d", tt.name, at, want)
		}
	}
	// After another boot a clock misleads the reader no more.
	other := l
	other.Settle(statedir.Moment{Wall: made + 1_200_000, BootID: "two", Boot: 100})
	if left, _ := other.Left(statedir.Moment{Wall: made - 1, BootID: "two", Boot: 60_100}); left != 39*time.Minute {
		t.Errorf("settled after another boot %v is left", left)
	}
	// Clocks that differ a little make no other deadline each time it is looked at.
	if at := l.Deadline(statedir.Moment{Wall: made + 60_003, BootID: "one", Boot: booted + 60_000}).UnixMilli(); at != made+3_600_000 {
		t.Errorf("it is over at %d", at)
	}
	l.Renew(0, statedir.Now())
	if left, limited := l.Left(statedir.Now()); limited || !l.Deadline(statedir.Now()).IsZero() {
		t.Errorf("without a deadline %v is left", left)
	}
	// What was not written by us does not overflow.
	for _, l := range []statedir.Lifetime{
		{TTL: 1 << 62, ExpiresAt: -1 << 62},
		{TTL: 1 << 62, ExpiresAt: 1 << 62, Idle: 1 << 62},
		{TTL: 1 << 62, BootID: "x", BootMS: -1 << 62},
		{TTL: -1, Idle: -1},
	} {
		left, limited := l.Left(statedir.Moment{Wall: made, BootID: "x", Boot: booted})
		if limited != (l.TTL > 0) || limited && l.ExpiresAt+l.BootMS > 0 != (left > 0) || l.IdleTimeout() < 0 {
			t.Errorf("%+v: %v is left (%v), idle timeout %v", l, left, limited, l.IdleTimeout())
		}
	}
}

func TestNow(t *testing.T) {
	a := statedir.Now()
	b := statedir.Now()
	if a.BootID == "" || a.BootID != b.BootID || a.Boot <= 0 || b.Boot < a.Boot {
		t.Errorf("%+v, then %+v", a, b)
	}
}

// withLimits makes a place with a time to live and an idle timeout.
func withLimits(t *testing.T, ttl, idle time.Duration) (*statedir.Record, *statedir.Config) {
	t.Helper()
	c := &statedir.Config{
		SandboxConfig: runtime.SandboxConfig{ID: id, TTL: ttl, IdleTimeout: idle}, CreatedAt: time.Now().UnixMilli(),
	}
	rec, _, err := open(t).Create(statedir.Draft{Config: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec, c
}

// A lifetime that was damaged is what the configuration says, by the time of day.
func TestLifetimeDamaged(t *testing.T) {
	rec, c := withLimits(t, time.Hour, time.Minute)
	file := filepath.Join(filepath.Dir(rec.ConfigFile()), "lifetime.json")
	damage := map[string]func() error{
		"empty":   func() error { return os.WriteFile(file, nil, 0o600) },
		"cut":     func() error { return os.WriteFile(file, []byte(`{"ttlMs":36000`), 0o600) },
		"garbage": func() error { return os.WriteFile(file, []byte("\x00\x00\x00"), 0o600) },
		"gone":    func() error { return os.Remove(file) },
	}
	for _, what := range []string{"empty", "cut", "garbage", "gone"} {
		if err := damage[what](); err != nil {
			t.Fatal(err)
		}
		l := lifetime(t, rec, c)
		if l == nil || l.IdleTimeout() != time.Minute {
			t.Fatalf("%s: got l %+v; want l != nil and l.IdleTimeout() == time.Minute", what, l)
		}
		if left, _ := l.Left(statedir.Now()); left < 59*time.Minute || left > time.Hour {
			t.Errorf("%s: %v is left of an hour", what, left)
		}
		later := statedir.Now()
		later.Wall += 2 * time.Hour.Milliseconds()
		if what != "gone" && !rec.MayBeOver(later) {
			t.Errorf("%s: it cannot be over", what)
		}
		if why := rec.Expired(l, later); why != runtime.ExpiredTTL {
			t.Errorf("%s: two hours later it is %q", what, why)
		}
	}
	if err := rec.Remove(); err != nil {
		t.Error(err)
	}
}

// What a shim says of the end counts of a sandbox that has such a limit only:
// root's are written by the user that it has dropped to.
func TestExpired(t *testing.T) {
	for _, tt := range []struct {
		ttl, idle time.Duration
		said      runtime.Expiry
		want      runtime.Expiry
	}{
		{0, 0, "ttl", ""},
		{0, 0, "idle", ""},
		{time.Hour, 0, "", ""},
		{time.Hour, 0, "idle", ""},
		{time.Hour, 0, "ttl", "ttl"},
		{time.Hour, 0, "nonsense", ""},
		{0, time.Hour, "idle", "idle"},
		{time.Hour, time.Hour, "idle", "idle"},
	} {
		rec, c := withLimits(t, tt.ttl, tt.idle)
		if err := statedir.SetStatus(rec.Run(), &statedir.Status{State: runtime.StateStopped, Expired: tt.said}); err != nil {
			t.Fatal(err)
		}
		if rec.MayBeOver(statedir.Now()) != (tt.want != "") {
			t.Errorf("ttl %v, idle %v, its shim says %q: it may be over: %v", tt.ttl, tt.idle, tt.said, tt.want == "")
		}
		if got := rec.Expired(lifetime(t, rec, c), statedir.Now()); got != tt.want {
			t.Errorf("ttl %v, idle %v, its shim says %q: %q, want %q", tt.ttl, tt.idle, tt.said, got, tt.want)
		}
	}
}

// Later readers see a renewal, and it survives.
func TestRenew(t *testing.T) {
	rec, c := withLimits(t, time.Hour, time.Minute)
	l := lifetime(t, rec, c)
	l.Renew(48*time.Hour, statedir.Now())
	if err := rec.SetLifetime(l); err != nil {
		t.Fatal(err)
	}
	got := lifetime(t, rec, c)
	if left, _ := got.Left(statedir.Now()); left < 47*time.Hour || got.IdleTimeout() != time.Minute || rec.MayBeOver(statedir.Now()) {
		t.Errorf("it is %+v", got)
	}
	if err := rec.Remove(); err != nil {
		t.Error(err)
	}
}

func TestTryLockConfig(t *testing.T) {
	rec := create(t, open(t), id, "")
	release, err := rec.TryLockConfig()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rec.TryLockConfig(); runtime.Class(err) != runtime.ErrConflict {
		t.Errorf("somebody has it: %v", err)
	}
	release()
	if release, err = rec.TryLockConfig(); err != nil {
		t.Errorf("no process has it: %v", err)
	} else {
		release()
	}
}

func lifetime(t *testing.T, rec *statedir.Record, c *statedir.Config) *statedir.Lifetime {
	t.Helper()
	l, err := rec.Lifetime(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Limits that cannot be read for now are not those of the configuration.
func TestLifetimeThatCannotBeRead(t *testing.T) {
	testenv.Unprivileged(t)
	rec, c := withLimits(t, time.Hour, 0)
	if err := os.Chmod(filepath.Join(filepath.Dir(rec.ConfigFile()), "lifetime.json"), 0); err != nil {
		t.Fatal(err)
	}
	if l, err := rec.Lifetime(c); runtime.Class(err) != runtime.ErrUnavailable {
		t.Errorf("Lifetime: got l %+v, err %v; want runtime.Class(err) == runtime.ErrUnavailable", l, err)
	}
}
