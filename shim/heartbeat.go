package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"wolffia/runtime/launch"
	"wolffia/wire"
)

// While anybody waits for PID 1, that is asked for a sign of life if it has not given one
// by itself. A sandbox whose PID 1 does not answer is dead: it is stopped, frozen, hung,
// or was taken over. One that nobody waits for may be frozen for as long as you like.
const (
	beatInterval = 5 * time.Second
	// beatsMissed is how many intervals without an answer are enough, of those in which
	// PID 1 had its share of the processors, as far as that can be told.
	beatsMissed = 6
	// beatsMissedBlind is how many where it cannot: in gVisor, whose kernel runs it, and in
	// an engine.
	beatsMissedBlind = 24
)

// A pulse says by its beats whether PID 1 lives.
type pulse struct {
	heard  uint64 // frames that it had sent by the last beat
	asked  bool
	missed int
}

// beat takes what has happened in the interval that is over: how many frames PID 1 has
// sent until now, whether it was excused, and how many missed beats are enough. It says
// whether PID 1 is to be asked for a sign of life, or is dead.
func (p *pulse) beat(heard uint64, excused bool, enough int) (ask, dead bool) {
	switch {
	case heard != p.heard:
		*p = pulse{heard: heard}
	case !p.asked:
		p.asked = true
		return true, false
	case !excused:
		p.missed++
	}
	return false, p.missed >= enough
}

// watch has PID 1 watched as long as a channel is open. r.mu is held.
func (r *relay) watch() {
	if r.watching || r.dead == nil {
		return
	}
	r.watching, r.pulse, r.last = true, pulse{heard: r.heard}, load{} // no beat is missed before the first
	r.due = time.Now().Add(beatInterval)
	time.AfterFunc(beatInterval, r.beat)
}

// beat looks after PID 1 once in each interval.
func (r *relay) beat() {
	var now load
	if r.load != nil {
		now = r.load() // reads files: without the lock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.routes)+len(r.gone) == 0 {
		r.watching = false
		return
	}
	enough := beatsMissed
	if !now.known {
		enough = beatsMissedBlind
	}
	// If we are late ourselves, so may PID 1 be.
	excused := time.Since(r.due) > beatInterval/2 || now.starved(&r.last)
	r.last = now
	ask, dead := r.pulse.beat(r.heard, excused, enough)
	if dead {
		go r.dead(time.Duration(enough) * beatInterval) // ends with PID 1
		return
	}
	if ask {
		go func() { _ = r.w.Send(wire.Ping, 0, nil) }() // ends with the stream; a PID 1 that does not read holds it up
	}
	r.due = time.Now().Add(beatInterval)
	time.AfterFunc(beatInterval, r.beat)
}

// A load is what the host's scheduler says of a process, since its begin.
type load struct {
	known   bool
	ran     time.Duration // on a processor
	waited  time.Duration // for a processor
	blocked bool          // a thread waits for a disk or a file system
}

// starved reports whether since an earlier time the process may not have had what it needs
// to answer.
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
			continue // it has ended, or this kernel does not tell
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

// initOf returns PID 1's number on the host, if the backend is its parent; else 0.
func initOf(backend int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", backend, backend))
	for field := range strings.FieldsSeq(string(text)) {
		program, _ := os.ReadFile("/proc/" + field + "/cmdline")
		if pid, err := strconv.Atoi(field); err == nil && strings.HasPrefix(string(program), launch.GuestPath+"\x00") {
			return pid
		}
	}
	return 0
}
