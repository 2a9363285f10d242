package statedir

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/statefile"
)

const pauseFile = "pause.json"

// A Pause is the record of a running sandbox's pauses since its start, which its shim writes. Its
// content is untrusted. Times are of CLOCK_BOOTTIME, in milliseconds.
type Pause struct {
	// SinceMS is when the pause began; 0: it is not paused.
	SinceMS int64 `json:"sinceMs,omitempty"`
	// TotalMS is how long the earlier pauses took.
	TotalMS int64 `json:"totalMs,omitempty"`
	// Idle says that the sandbox was paused since it was not used: its next use resumes it.
	Idle bool `json:"idle,omitempty"`
}

// BootMS returns the time of CLOCK_BOOTTIME in milliseconds.
func BootMS() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano() / int64(time.Millisecond)
}

// SetPause replaces the record; the shim calls it.
func SetPause(run string, p *Pause) error { return statefile.Write(filepath.Join(run, pauseFile), p) }

// ForgetPauses removes the record.
func ForgetPauses(run string) error { return removeIfExists(filepath.Join(run, pauseFile)) }

// PauseOf returns the record of a running sandbox; the zero Pause if it was never paused.
func PauseOf(run string) (p Pause) {
	if statefile.Read(filepath.Join(run, pauseFile), &p) != nil {
		return Pause{}
	}
	return p
}

// Paused returns for how long the sandbox was paused since its start, up to now.
func (p Pause) Paused() time.Duration {
	total := p.TotalMS
	if p.SinceMS > 0 {
		total += BootMS() - p.SinceMS
	}
	return time.Duration(min(max(total, 0), int64(1<<40))) * time.Millisecond
}
