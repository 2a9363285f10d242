package shell

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/guest/proc"
)

// The ladder against a command whose time is over, counted from the first
// SIGINT. A shell that burns time inside a builtin looks at signals late, but
// comes back: it gets longer, unless it has a trap on SIGINT.
const (
	ladderAsk     = 50 * time.Millisecond // ask again for the report
	ladderTerm    = 300 * time.Millisecond
	ladderKill    = 600 * time.Millisecond
	ladderReplace = 1100 * time.Millisecond
	ladderPatient = 2500 * time.Millisecond
)

// The steps of the ladder.
const (
	stageNone = iota
	stageInt
	stageAsk
	stageTerm
	stageKill
	stageReplace
)

// Lost reports: how often to look, and how long each attempt gets.
const (
	lostTick  = 250 * time.Millisecond
	lostFinal = 500 * time.Millisecond
)

// foreground is the process group that the terminal belongs to. TIOCGPGRP
// works on the master side (ioctl_tty(2)); to write ^C would not if the
// terminal is raw. 0 is unknown.
func (in *incarnation) foreground() int {
	pg, err := unix.IoctlGetInt(in.tty, unix.TIOCGPGRP)
	if err == unix.ENOTTY { // gVisor tells the slave side only
		return 0
	}
	if err != nil || pg <= 1 {
		return in.pid
	}
	return pg
}

// interrupt begins the ladder.
func (s *Session) interrupt() {
	r := s.cur
	if r == nil || r.rep != nil || r.ended || r.stage != stageNone || s.in == nil {
		return
	}
	r.stage = stageInt
	r.since = time.Now()
	s.hit(r)
	s.set(alarmLadder, ladderAsk)
}

// hit interrupts what is in the foreground, and has the shell leave the
// command when that is over.
func (s *Session) hit(r *run) {
	r.target = s.in.foreground()
	r.unborn = r.target != s.in.pid && sameCommandLine(r.target, s.in.pid)
	s.atOnce(func() {
		s.guard()
		s.signalForeground(unix.SIGINT)
	})
}

// atOnce has the shell see nothing of what f does until all of it is done, all
// signals together. A program that ends meanwhile is not followed by the next;
// and a bash that waits for its next line survives: interrupted while it runs
// the trap of a signal just before, it goes on with the bytes behind its
// buffer's end, as far as there are any (getc_with_restart of bash 5.2 jumps
// out with the length at -1).
func (s *Session) atOnce(f func()) {
	if s.in != nil {
		_ = unix.Kill(s.in.pid, unix.SIGSTOP)
		defer unix.Kill(s.in.pid, unix.SIGCONT)
	}
	f()
}

// guard has the shell go no further in the command once the program that it
// waits for has ended. By itself it goes on, unless the program has died of
// SIGINT: one that handles it, or that SIGTERM had to end, would be followed by
// the rest of the line, though its time is over.
func (s *Session) guard() {
	switch {
	case s.in.foreground() == s.in.pid: // nothing to wait for
	case s.d.posix:
		_ = unix.Kill(s.in.pid, unix.SIGINT) // waits until the program has ended
	case catches(s.in.pid, guardSignal), s.in.foreground() == 0: // gVisor does not tell what it catches
		_ = unix.Kill(s.in.pid, guardSignal)
	}
}

func (s *Session) signalForeground(sig syscall.Signal) {
	if s.in == nil {
		return
	}
	if s.in.foreground() == 0 {
		switch {
		case s.in.typeSignal(sig):
		case sig == unix.SIGKILL:
			s.slay()
		default:
			s.sweep(sig)
			_ = unix.Kill(s.in.pid, sig)
		}
		return
	}
	if unix.Kill(-s.in.foreground(), sig) != nil {
		_ = unix.Kill(s.in.pid, sig)
	}
}

// escalate takes the next step.
func (s *Session) escalate() {
	r := s.cur
	if r == nil || r.rep != nil || r.ended || s.in == nil {
		return
	}
	begin := r.since
	at := func(t time.Duration) { s.alarms[alarmLadder] = begin.Add(t) }
	switch r.stage++; r.stage {
	case stageAsk:
		// What was just being started has another group by now, or still had
		// the shell's handler, and has lost the signal.
		if r.unborn || r.target == 0 || r.target != s.in.foreground() {
			s.hit(r)
		}
		s.send(s.d.report(r.nonce)) // if the interrupt hit the first one
		at(ladderTerm)
	case stageTerm:
		s.atOnce(func() {
			s.guard()
			s.sweep(unix.SIGTERM)
			_ = unix.Kill(s.in.pid, unix.SIGINT)
			_ = unix.Kill(s.in.pid, unix.SIGTERM) // an interactive shell ignores it, a trap sees it
		})
		at(ladderKill)
	case stageKill:
		burns := s.burns()
		s.atOnce(func() {
			s.guard()
			s.sweep(unix.SIGKILL)
			_ = unix.Kill(s.in.pid, unix.SIGINT)
		})
		s.send(s.d.report(r.nonce))
		if burns {
			at(ladderPatient)
		} else {
			at(ladderReplace)
		}
	default:
		r.stage = stageReplace
		s.slay() // its exit ends the run
	}
}

// burns reports whether the shell is busy itself and has no trap on SIGINT
// that would keep it so. bash handles SIGINT itself when it has no trap, and
// then ignores it nowhere; what a trap looks like from outside is not told
// apart, so only a shell that ignores it is not waited for.
func (s *Session) burns() bool {
	if ignores(s.in.pid, unix.SIGINT) {
		return false
	}
	for _, p := range proc.Others() {
		if p.PID == s.in.pid {
			return p.State == 'R'
		}
	}
	return false
}

// scope is that of the command that runs.
func (s *Session) scope() *scope {
	sc := &scope{before: s.before, groups: s.groups}
	if s.in != nil {
		sc.shell = s.in.pid
	}
	if s.cur != nil {
		var files []inode
		for _, st := range s.cur.outs {
			if st.pipe != nil {
				files = append(files, st.file)
			}
		}
		sc.holds = holders(files)
	}
	return sc
}

// sweep sends a signal to all processes of the command. To be killed they are
// stopped first, until no new one shows up, so that none forks away; the shell
// must be too (atOnce), or it would take a program for one that a person has
// stopped.
func (s *Session) sweep(sig syscall.Signal) { sweep(s.scope(), sig) }

// slay kills the command and the shell, which goes no further meanwhile.
func (s *Session) slay() {
	if s.in != nil {
		_ = unix.Kill(s.in.pid, unix.SIGSTOP)
		defer unix.Kill(s.in.pid, unix.SIGKILL)
	}
	sweep(s.scope(), unix.SIGKILL)
}

func sweep(sc *scope, sig syscall.Signal) (n int) {
	if sig != unix.SIGKILL {
		found := sc.find(proc.Others())
		for _, p := range found {
			_ = unix.Kill(p.PID, sig)
			_ = unix.Kill(p.PID, unix.SIGCONT)
		}
		return len(found)
	}
	const rounds = 50 // a bound, in case somebody outside feeds it
	known := map[int]bool{}
	for range rounds {
		before := len(known)
		for _, p := range sc.find(proc.Others()) {
			if !known[p.PID] {
				known[p.PID] = true
				_ = unix.Kill(p.PID, unix.SIGSTOP)
			}
		}
		if len(known) == before {
			break
		}
	}
	var dying []unix.PollFd
	for pid := range known {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			dying = append(dying, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	awaitDeath(dying)
	return len(known)
}

// deathLimit is how long what was killed is waited for. It is over at once,
// unless the kernel has a reason.
const deathLimit = 100 * time.Millisecond

// awaitDeath waits until processes are dead, so that their shell knows of it
// before it does anything else, and closes their descriptors (pidfd_open(2)).
func awaitDeath(pidfds []unix.PollFd) {
	late := time.Now().Add(deathLimit)
	for i := range pidfds {
		for {
			left := time.Until(late).Milliseconds()
			n, err := unix.Poll(pidfds[i:i+1], int(max(left, 0)))
			if n > 0 || err != unix.EINTR && err != nil || left <= 0 {
				break
			}
		}
		_ = unix.Close(int(pidfds[i].Fd))
	}
}

// checkLost looks whether the shell sits at its prompt and has not answered:
// then it is asked again, then repaired, then replaced.
func (s *Session) checkLost() {
	r := s.cur
	if r == nil || r.rep != nil || r.ended || s.in == nil {
		return
	}
	if r.in.open && r.call != nil && r.call.closed {
		s.feed()
	}
	if s.alarms[alarmLost].IsZero() {
		s.set(alarmLost, lostTick)
	} else if time.Until(s.alarms[alarmLost]) < lostTick/2 {
		return // it came for the input only
	}
	if r.stage != stageNone {
		return // the ladder does the same
	}
	if !s.in.idle() {
		r.idle = 0
		return
	}
	if r.idle++; r.idle < 2 {
		return
	}
	if r.asked++; r.asked > 1 && s.dir.probe && !r.probe && !s.wasRead(r) {
		// It did not even come to the text: another shell can have it.
		r.attempt, r.asked, r.idle, r.unknown = 1, 0, 0, false
		s.again(r)
		return
	}
	// With another word: the command's own report may still come, if the shell
	// is only slow.
	switch r.asked {
	case 1:
		r.again, r.second = s.nonce(), reports{}
		s.send(s.d.report(r.again))
	case 2:
		for _, line := range s.d.repair() {
			s.send(line)
		}
		s.send(s.d.report(r.again))
		s.send(s.d.settle())
		s.set(alarmLost, lostFinal)
	default:
		r.unknown = true
		r.stage = stageReplace
		_ = unix.Kill(s.in.pid, unix.SIGKILL)
	}
}

// HangUp tells every shell that its terminal is gone, once its command is over.
// An interactive one dies of that; SIGTERM it ignores (SIGNALS in bash(1)).
// Nothing is run any more. It does not wait.
func (m *Manager) HangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		s.later(func() {
			s.leaving = true
			if !s.busy {
				s.hangUp()
			}
		})
	}
}

func (s *Session) hangUp() {
	if s.in != nil {
		_ = unix.Kill(s.in.pid, unix.SIGHUP)
	}
	if s.term != nil && s.term.alive() {
		_ = unix.Kill(s.term.pid, unix.SIGHUP)
	}
}
