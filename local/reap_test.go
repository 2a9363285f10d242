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
		{"half made", facts{half: true}, whyHalf},
		{"half removed", facts{half: true, state: dead}, whyHalf},
		{"damaged", facts{damaged: true, state: stopped, expired: runtime.ExpiredTTL, callerGone: true}, ""},
		{"created", facts{state: created}, ""},
		{"runs", facts{state: running}, ""},
		{"stopped", facts{state: stopped}, whyStopped},
		{"dead", facts{state: dead}, whyDead},
		{"no state that is known", facts{state: "other"}, ""},

		{"created, its time over", facts{state: created, expired: runtime.ExpiredTTL, expiresAt: now}, whyTTL},
		{"stopped, its time over", facts{state: stopped, expired: runtime.ExpiredTTL, expiresAt: now}, whyTTL},
		{"idle too long", facts{state: stopped, expired: runtime.ExpiredIdle}, whyIdle},
		{"dead, idle too long", facts{state: dead, expired: runtime.ExpiredIdle}, whyIdle},
		{"runs, its time just over", facts{state: running, expired: runtime.ExpiredTTL, expiresAt: now.Add(1 - stuckLimit)}, ""},
		{"runs, its time long over", facts{state: running, expired: runtime.ExpiredTTL, expiresAt: now.Add(-stuckLimit)}, whyStuck},
		{"runs, idle too long", facts{state: running, expired: runtime.ExpiredIdle}, ""},

		{"bound, never started", facts{state: created, callerGone: true}, whyUnbound},
		{"bound, runs", facts{state: running, callerGone: true}, ""},
		{"bound, stopped", facts{state: stopped, callerGone: true}, whyUnbound},
		{"bound, dead", facts{state: dead, callerGone: true}, whyUnbound},
		{"bound, stopped, with changes", facts{state: stopped, copied: true, callerGone: true}, whyStopped},
		{"bound, dead, with changes", facts{state: dead, copied: true, callerGone: true}, whyStopped},
		{"bound, copied, never started", facts{state: created, copied: true, callerGone: true}, whyUnbound},
		{"bound, with changes, its end not recorded", facts{state: created, copied: true, changed: true, callerGone: true}, ""},
		{"dead, with changes", facts{state: dead, copied: true}, whyStopped},
		{"bound, its time over", facts{state: stopped, callerGone: true, expired: runtime.ExpiredTTL, expiresAt: now}, whyTTL},
	} {
		if got := tt.is.reapable(now); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for why, want := range map[reason]bool{
		"": false, whyDead: false, whyStopped: false,
		whyHalf: true, whyTTL: true, whyIdle: true, whyUnbound: true, whyStuck: true,
	} {
		if got := why.unasked(); got != want {
			t.Errorf("removed unasked because %q: %v", why, got)
		}
	}
}
