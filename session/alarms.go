package session

import "time"

// alarmSave is the alarm that takes a snapshot; those before it are of the run.
const alarmSave = release + 1

// Alarms are the times of clock at which something is due in a session. They belong to its turn.
type alarms struct {
	due   [alarmSave + 1]time.Time // zero: not set
	armed time.Time                // when the timer rings; zero: it does not
	timer *time.Timer
	clock *Clock
}

func (a *alarms) set(h runEvent, after time.Duration) { a.due[h] = a.clock.Now().Add(after) }

// clear clears the alarms of the run.
func (a *alarms) clear() { clear(a.due[:alarmSave]) }

// arm sets the timer to the next alarm, unless it will ring before it anyway:
// so a command that is over at once costs no timer.
func (a *alarms) arm() {
	var first time.Time
	for _, t := range a.due {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() || !a.armed.IsZero() && !first.Before(a.armed) {
		return
	}
	a.armed = first
	a.timer.Reset(a.clock.wait(first))
}

// ring clears an alarm that is due, and reports whether it was.
func (a *alarms) ring(h runEvent, now time.Time) bool {
	t := a.due[h]
	due := !t.IsZero() && !t.After(now)
	if due {
		a.due[h] = time.Time{}
	}
	return due
}
