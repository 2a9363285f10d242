package shim

import (
	"os"
	"testing"
	"time"
)

// PID 1 is asked once it is silent, and dead when it has missed enough beats that count.
func TestPulse(t *testing.T) {
	const ask, dead = "ask", "dead"
	type interval struct {
		frames  uint64 // that it has sent in it
		excused bool
		want    string
	}
	for name, intervals := range map[string][]interval{
		"talks":        {{5, false, ""}, {1, false, ""}, {3, false, ""}},
		"answers":      {{0, false, ask}, {1, false, ""}, {0, false, ask}, {1, false, ""}, {0, false, ask}},
		"is dead":      {{0, false, ask}, {0, false, ""}, {0, false, ""}, {0, false, dead}},
		"is excused":   {{0, false, ask}, {0, true, ""}, {0, true, ""}, {0, true, ""}, {0, false, ""}, {0, false, ""}, {0, false, dead}},
		"comes back":   {{0, false, ask}, {0, false, ""}, {0, false, ""}, {1, false, ""}, {0, false, ask}, {0, false, ""}, {0, false, ""}},
		"was excused":  {{0, true, ask}, {0, false, ""}, {0, false, ""}, {0, false, dead}},
		"talks, stops": {{9, false, ""}, {0, false, ask}, {0, false, ""}, {0, false, ""}, {0, false, dead}},
	} {
		var p pulse
		heard := uint64(0)
		for i, in := range intervals {
			heard += in.frames
			asked, over := p.beat(heard, in.excused, 3)
			got := map[bool]string{true: ask}[asked] + map[bool]string{true: dead}[over]
			if got != in.want {
				t.Errorf("%s: beat %d: %q, want %q", name, i, got, in.want)
			}
		}
	}
}

// Who had no processor is not silent by choice.
func TestStarved(t *testing.T) {
	before := load{known: true, ran: time.Second, waited: time.Second}
	for name, tt := range map[string]struct {
		ran, waited time.Duration // since
		blocked     bool
		want        bool
	}{
		"idle":              {0, 0, false, false},
		"waits":             {0, time.Second, false, true},
		"waits, and has it": {time.Second, time.Second, false, false},
		"spins":             {5 * time.Second, 0, false, false},
		"waits for a disk":  {0, 0, true, true},
	} {
		now := load{known: true, ran: before.ran + tt.ran, waited: before.waited + tt.waited, blocked: tt.blocked}
		if got := now.starved(&before); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if (&load{}).starved(&before) || before.starved(&load{}) {
		t.Error("what is not known is starved")
	}
	if l := loadOf(os.Getpid()); !l.known || l.ran <= 0 {
		t.Errorf("our own load: %+v", l)
	}
	if l := loadOf(1 << 30); l.known {
		t.Errorf("that of nobody: %+v", l)
	}
}
