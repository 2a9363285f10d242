package local

import (
	"testing"
	"time"

	"wolffia/runtime"
)

// Every reason to remove a sandbox, and what keeps one.
func TestReapable(t *testing.T) {
	now := time.Now()
	const created, running, stopped, dead = runtime.StateCreated, runtime.StateRunning, runtime.StateStopped, runtime.StateDead
	for _, tt := range []struct {
		name string
		is   facts
		want reason
	}{
		{"none", facts{}, ""},
		{"half made", facts{half: true}, reasonIncomplete},
		{"half removed", facts{half: true, state: dead}, reasonIncomplete},
		{"damaged", facts{damaged: true, state: stopped, expired: runtime.ExpiredTTL, callerGone: true}, ""},
		{"created", facts{state: created}, ""},
		{"runs", facts{state: running}, ""},
		{"stopped", facts{state: stopped}, reasonStopped},
		{"dead", facts{state: dead}, reasonDead},
		{"no state that is known", facts{state: "other"}, ""},

		{"created, its time over", facts{state: created, expired: runtime.ExpiredTTL, expiresAt: now}, reasonTTL},
		{"stopped, its time over", facts{state: stopped, expired: runtime.ExpiredTTL, expiresAt: now}, reasonTTL},
		{"idle too long", facts{state: stopped, expired: runtime.ExpiredIdle}, reasonIdle},
		{"dead, idle too long", facts{state: dead, expired: runtime.ExpiredIdle}, reasonIdle},
		{"runs, its time just over", facts{state: running, expired: runtime.ExpiredTTL, expiresAt: now.Add(1 - stuckLimit)}, ""},
		{"runs, its time long over", facts{state: running, expired: runtime.ExpiredTTL, expiresAt: now.Add(-stuckLimit)}, reasonStuck},
		{"runs, idle too long", facts{state: running, expired: runtime.ExpiredIdle}, ""},

		{"bound, never started", facts{state: created, callerGone: true}, reasonUnbound},
		{"bound, runs", facts{state: running, callerGone: true}, ""},
		{"bound, stopped", facts{state: stopped, callerGone: true}, reasonUnbound},
		{"bound, dead", facts{state: dead, callerGone: true}, reasonUnbound},
		{"bound, stopped, with changes", facts{state: stopped, copied: true, callerGone: true}, reasonStopped},
		{"bound, dead, with changes", facts{state: dead, copied: true, callerGone: true}, reasonStopped},
		{"bound, copied, never started", facts{state: created, copied: true, callerGone: true}, reasonUnbound},
		{"bound, with changes, its end not recorded", facts{state: created, copied: true, changed: true, callerGone: true}, ""},
		{"dead, with changes", facts{state: dead, copied: true}, reasonStopped},
		{"bound, its time over", facts{state: stopped, callerGone: true, expired: runtime.ExpiredTTL, expiresAt: now}, reasonTTL},
	} {
		if got := tt.is.reapable(now); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for why, want := range map[reason]bool{
		"": false, reasonDead: false, reasonStopped: false,
		reasonIncomplete: true, reasonTTL: true, reasonIdle: true, reasonUnbound: true, reasonStuck: true,
	} {
		if got := why.unasked(); got != want {
			t.Errorf("removed unasked because %q: %v", why, got)
		}
	}
}
