package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wolffia/wire"
)

// While a channel is open, PID 1 is sent a ping when it has been silent for an interval.
// If it does not answer, the sandbox is dead: PID 1 is stopped, frozen or hung, or
// another program has taken its place. Without an open channel, and while it is paused, a sandbox
// may be frozen for any time.
const (
	beatInterval = 5 * time.Second
	// beatsMissed is the number of intervals without an answer after which the sandbox is
	// dead. Those in which PID 1 got no processor time are not counted.
	beatsMissed = 6
	// beatsMissedBlind is the same where PID 1's processor time is not known: in gVisor,
	// whose kernel runs it, and in an engine.
	beatsMissedBlind = 24
)

// A pulse decides whether PID 1 is alive.
type pulse struct {
	received uint64 // frames until the last beat
	asked    bool
	missed   int
}

// beat ends an interval: received is the number of PID 1's frames so far, excused says
// that it could not have answered, and enough is the number of missed beats that mean
// death. It returns whether to send a ping, or that PID 1 is dead.
func (p *pulse) beat(received uint64, excused bool, enough int) (ask, dead bool) {
	switch {
	case received != p.received:
		*p = pulse{received: received}
	case !p.asked:
		p.asked = true
		return true, false
	case !excused:
		p.missed++
	}
	return false, p.missed >= enough
}

// watch starts the beats, which continue while a channel is open. r.mu is held.
func (r *relay) watch() {
	if r.watching || r.dead == nil || r.still {
		return
	}
	// no beat is missed before the first
	r.watching, r.pulse, r.last = true, pulse{received: r.received}, load{}
	r.due = time.Now().Add(beatInterval)
	time.AfterFunc(beatInterval, r.beat)
}

// beat runs at the end of each interval.
func (r *relay) beat() {
	r.mu.Lock()
	goesOn := r.goesOn()
	r.mu.Unlock()
	if !goesOn {
		return
	}
	var now load
	if r.load != nil {
		now = r.load() // reads files: without the lock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.goesOn() {
		return
	}
	enough := beatsMissed
	if !now.known {
		enough = beatsMissedBlind
	}
	// If the shim is late, PID 1 may be late too.
	excused := time.Since(r.due) > beatInterval/2 || now.starved(&r.last)
	r.last = now
	ask, dead := r.pulse.beat(r.received, excused, enough)
	if dead {
		go r.dead(time.Duration(enough) * beatInterval) // ends with PID 1
		return
	}
	if ask {
		// ends with the stream; a PID 1 that does not read holds it up
		go func() { _ = r.w.Send(wire.Ping, 0, nil) }()
	}
	r.due = time.Now().Add(beatInterval)
	time.AfterFunc(beatInterval, r.beat)
}

// goesOn ends the beats if no channel is open, or the sandbox is paused. r.mu is held.
func (r *relay) goesOn() bool {
	r.watching = r.active() > 0 && !r.still
	return r.watching
}

// A load is the scheduler's record of a process since its start.
type load struct {
	known   bool
	ran     time.Duration // time on a processor
	waited  time.Duration // time in the run queue
	blocked bool          // a thread waits for a disk or a file system
}

// starved reports whether the process may have lacked the resources to answer since an
// earlier load.
func (l *load) starved(before *load) bool {
	if !l.known || !before.known {
		return false
	}
	const enough, much = 50 * time.Millisecond, 250 * time.Millisecond
	return l.blocked || l.ran-before.ran < enough && l.waited-before.waited > much
}

// loadOf reads a process's load (schedstat in proc(5), Documentation/scheduler/sched-stats.rst).
func loadOf(pid int) (l load) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task + "/schedstat")
		var ran, waited time.Duration // ns
		if n, _ := fmt.Sscan(string(text), &ran, &waited); n != 2 {
			continue // the thread has ended, or the kernel has no such file
		}
		l.known = l.known || ran > 0
		l.ran += ran
		l.waited += waited
		stat, _ := os.ReadFile(task + "/stat")
		if i := strings.LastIndexByte(string(stat), ')'); i >= 0 && strings.HasPrefix(string(stat[i+1:]), " D") {
			l.blocked = true
		}
	}
	return l
}
