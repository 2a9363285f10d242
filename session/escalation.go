package session

import (
	"bytes"
	"crypto/rand"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// The times between the steps against a command whose time is over, each from the step
// before: see docs/decisions/25-shell-signals.md.
const (
	untilAsk  = 50 * time.Millisecond  // from SIGINT: ask again for the report
	untilTerm = 250 * time.Millisecond // from there
	untilKill = 300 * time.Millisecond
	untilLook = 100 * time.Millisecond // again and again
)

// How often a shell is looked at after SIGKILL before it is replaced. One that
// burns time inside a builtin looks at signals late, but comes back: it gets
// longer, unless it has a trap on SIGINT. So only the looks that find it idle
// count for maxLooks: on a busy host one alone says little.
const (
	maxLooks     = 5
	maxLooksBusy = 19
)

// A stage is the last step that was taken against a run.
type stage int

const (
	stageNone    stage = iota
	stageInt           // SIGINT to the foreground
	stageAsk           // the shell was asked for its report once more
	stageTerm          // SIGTERM to all of the command
	stageKill          // SIGKILL, again and again
	stageReplace       // SIGKILL to the shell too: its exit ends the run
)

// Lost reports: how often to look, and how long each attempt gets.
const (
	lostTick  = 250 * time.Millisecond
	lostFinal = 500 * time.Millisecond
)

// foreground is the process group that the terminal belongs to. TIOCGPGRP
// works on the master side (ioctl_tty(2)); to write ^C would not if the
// terminal is raw. 0 is unknown.
func (p *shellProcess) foreground() int {
	pg, err := unix.IoctlGetInt(p.tty, unix.TIOCGPGRP)
	if err == unix.ENOTTY { // gVisor tells the slave side only
		return 0
	}
	if err != nil || pg <= 1 {
		return p.pid
	}
	return pg
}

// interrupt takes the first step against the run.
func (s *Session) interrupt() {
	r := s.cur
	if r.stage != stageNone {
		return
	}
	r.stage = stageInt
	s.interruptForeground(r)
	s.alarms.set(escalation, untilAsk)
}

// interruptForeground interrupts what is in the foreground, and has the shell leave the
// command when that is over.
func (s *Session) interruptForeground(r *run) {
	r.target = s.shell.foreground()
	r.preExec = r.target != s.shell.pid && sameCommandLine(r.target, s.shell.pid)
	s.shell.frozen = s.shell.frozen || !s.shell.atPrompt() && (!s.shell.leaves() || s.sticks(r))
	if s.shell.frozen && !s.shell.stoppable() {
		r.stage = stageReplace
		s.killAll()
		return
	}
	s.atOnce(func() {
		s.guard()
		if r.target != 0 || !s.shell.atPrompt() { // else it has not begun, or is over
			s.interruptNow()
		}
	})
}

// interruptNow sends SIGINT to the foreground; not to a shell that executes a command
// itself: that the guard has leave, between two commands, and its trap on SIGINT would be
// run twice. bash waits for $(...) in its own group: it gets one then, too.
// A SIGINT has busybox ash jump from wherever it is, also out of a function of its C library that holds a lock:
// the shell waits for that lock for ever (clearerr in evalbltin, shell/ash.c of 1.35).
func (s *Session) interruptNow() {
	if s.shell.foreground() != s.shell.pid || s.shell.atPrompt() {
		s.signalForeground(unix.SIGINT)
		return
	}
	found, _ := s.tree().Find(proc.Others())
	alone := true
	for _, p := range found {
		if p.Group == s.shell.pid {
			alone = false
			_ = unix.Kill(p.PID, unix.SIGINT)
		}
	}
	if !alone && !s.d.posix {
		_ = unix.Kill(s.shell.pid, unix.SIGINT)
	}
}

// sticks reports whether the shell may go on with the text whatever it is sent. bash
// does if a program is interrupted that a trap on ERR, RETURN or DEBUG has started:
// it forgets the interrupt when the trap is over, and has dropped the guard's signal
// before (interrupt_state in _run_trap_internal, trap.c of 5.2). Such a shell is
// frozen: it does nothing any more until it is replaced.
func (s *Session) sticks(r *run) bool {
	return !s.d.posix && (s.mayStick || setsTrap(r.text) || s.snap != nil && setsTrap(s.snap.sections["trap"]))
}

// setsTrap reports whether a text may set a trap that bash runs amid a command, or a
// list of traps has one.
func setsTrap(text []byte) bool {
	for line := range bytes.Lines(text) {
		_, rest, found := bytes.Cut(line, []byte("trap"))
		for _, name := range []string{"ERR", "RETURN", "DEBUG"} {
			if found && bytes.Contains(rest, []byte(name)) {
				return true
			}
		}
	}
	return false
}

// stoppable reports whether the shell can be stopped for a moment. In gVisor a
// stopped process group gets SIGHUP whenever a process leaves it. Linux
// looks whether that has made it an orphan (EXIT in setpgid(2)).
func (p *shellProcess) stoppable() bool { return p.foreground() != 0 }

// atOnce has the shell see nothing of what f does until all of it is done, all
// signals together, if it is stoppable. A program that ends meanwhile is not
// followed by the next; and a bash that waits for its next line survives: see
// docs/decisions/25-shell-signals.md.
func (s *Session) atOnce(f func()) {
	if s.shell != nil && s.shell.stoppable() {
		_ = unix.Kill(s.shell.pid, unix.SIGSTOP)
		if !s.shell.frozen {
			defer unix.Kill(s.shell.pid, unix.SIGCONT)
		}
	}
	f()
}

// guard has the shell go no further in the command once the program that it
// waits for has ended. By itself it goes on, unless the program has died of
// SIGINT. It does nothing to a shell at its prompt, for the reason in atOnce.
func (s *Session) guard() {
	if s.shell.frozen || s.shell.atPrompt() {
		return
	}
	s.shell.trapped = true
	_ = unix.Kill(s.shell.pid, guardSignal)
}

func (s *Session) signalForeground(sig syscall.Signal) {
	if s.shell == nil {
		return
	}
	switch group := s.shell.foreground(); {
	case group == 0 && s.shell.typeSignal(sig):
	case group == 0 && sig == unix.SIGKILL:
		s.killAll()
	case group == 0:
		s.sweep(sig)
		_ = unix.Kill(s.shell.pid, sig)
	case group == s.shell.pid: // it may be stopped for a moment: see atOnce
		if unix.Kill(-group, sig) != nil {
			_ = unix.Kill(s.shell.pid, sig)
		}
	case proc.Send(-group, sig) != nil:
		_ = unix.Kill(s.shell.pid, sig)
	}
}

// escalate takes the next step.
func (s *Session) escalate() {
	r := s.cur
	if s.shell.frozen {
		s.escalateFrozen(r)
		return
	}
	switch r.stage {
	case stageInt:
		r.stage = stageAsk
		// What was just being started has another group by now, or still had
		// the shell's handler, and has lost the signal.
		if r.preExec || r.target == 0 || r.target != s.shell.foreground() {
			s.interruptForeground(r)
		}
		s.send(s.d.report(r.nonce)) // if the interrupt hit the first one
		s.alarms.set(escalation, untilTerm)
	case stageAsk:
		r.stage = stageTerm
		s.atOnce(func() {
			s.guard()
			s.sweep(unix.SIGTERM)
			if !s.shell.atPrompt() {
				_ = unix.Kill(s.shell.pid, unix.SIGINT)
			}
			_ = unix.Kill(s.shell.pid, unix.SIGTERM) // an interactive shell ignores it, a trap sees it
		})
		s.alarms.set(escalation, untilKill)
	case stageTerm:
		r.stage = stageKill
		s.killCommand(r)
		s.alarms.set(escalation, untilLook)
	case stageKill:
		if r.looks++; !s.comesBack() {
			r.idle++
		}
		switch {
		case r.looks >= maxLooksBusy || r.idle >= maxLooks:
			r.stage = stageReplace
			s.killAll() // its exit ends the run
			return
		case s.shell.hasReadAll():
			s.send(s.d.report(r.nonce)) // an interrupt hit that one too
		case s.lives(): // started since, by a trap for one
			s.killCommand(r)
		}
		s.alarms.set(escalation, untilLook)
	}
}

// escalateFrozen takes the next step against what a frozen shell has started. Nothing
// comes back from it, so it goes with what is left.
func (s *Session) escalateFrozen(r *run) {
	if r.stage == stageInt {
		r.stage = stageTerm
		s.sweep(unix.SIGTERM)
		s.alarms.set(escalation, untilTerm+untilKill)
		return
	}
	r.stage = stageReplace
	s.killAll()
}

// killCommand kills what the command has started, and interrupts the shell.
func (s *Session) killCommand(r *run) {
	s.atOnce(func() {
		s.guard()
		s.sweep(unix.SIGKILL)
		_ = unix.Kill(s.shell.pid, unix.SIGINT)
	})
	s.send(s.d.report(r.nonce))
}

// comesBack reports whether the shell can be expected to answer yet: it uses a processor,
// or waits for one or for the disk, as it does for long on a busy host; or it only has to
// read its next line; and it has no trap on SIGINT that would
// keep it so. bash handles SIGINT itself when it has no trap, and then ignores it
// nowhere; what a trap looks like from outside is not told apart, so only a shell
// that ignores it is not waited for.
func (s *Session) comesBack() bool {
	if proc.Ignores(s.shell.pid, unix.SIGINT) {
		return false
	}
	p, err := proc.Read(s.shell.pid)
	return s.shell.atPrompt() || err == nil && (p.State == 'R' || p.State == 'D')
}

// lives reports whether the command has processes.
func (s *Session) lives() bool {
	found, _ := s.tree().Find(proc.Others())
	return len(found) > 0
}

// deathLimit bounds how long the session waits for processes that it has killed.
const deathLimit = 250 * time.Millisecond

// sweep sends a signal to all processes of the command. To be killed they are
// stopped first, so that none forks away, if the shell is stopped too (atOnce): it
// would take a program for one that a person has stopped.
func (s *Session) sweep(sig syscall.Signal) {
	if sig == unix.SIGKILL {
		s.tree().Kill(deathLimit) // the shell sees their death before it does anything else
		return
	}
	s.tree().Signal(sig)
}

// killAll kills the command and the shell, which goes no further meanwhile. In gVisor
// it may die of the SIGHUP instead that stoppable tells of.
func (s *Session) killAll() {
	if s.shell != nil {
		_ = unix.Kill(s.shell.pid, unix.SIGSTOP)
		defer unix.Kill(s.shell.pid, unix.SIGKILL)
	}
	s.sweep(unix.SIGKILL)
}

// checkLost looks whether the shell sits at its prompt and has not answered:
// then it is asked again, then repaired, then replaced.
func (s *Session) checkLost() {
	r := s.cur
	if r.in.open && r.call != nil && r.call.closed {
		s.feed()
	}
	if s.alarms.due[lookOver].IsZero() {
		s.alarms.set(lookOver, lostTick)
	} else if time.Until(s.alarms.due[lookOver]) < lostTick/2 {
		return // it came for the input only
	}
	if r.stage != stageNone {
		return // the ladder does the same
	}
	s.checkKeys(r)
	if r.stage != stageNone {
		return
	}
	astray := s.shell.astray()
	if !s.shell.hasReadAll() && !astray {
		r.atPrompt = 0
		return
	}
	if r.atPrompt++; r.atPrompt < 2 {
		return
	}
	if astray {
		s.abandon(r)
		return
	}
	if r.asked++; r.asked > 1 && r.tries < maxTries && !s.wasRead(r) {
		s.replaceFor(r) // it did not even come to the text
		return
	}
	// With another nonce: the command's own report may still come, if the shell
	// is only slow.
	switch r.asked {
	case 1:
		r.again, r.second = rand.Text(), reports{}
		s.send(s.d.report(r.again))
	case 2:
		s.send(append(s.d.repair(), s.d.report(r.again))...)
		s.alarms.set(lookOver, lostFinal)
	default:
		s.abandon(r)
	}
}

// abandon kills a shell that cannot be made to say how its command has ended.
func (s *Session) abandon(r *run) {
	r.unknown = true
	r.stage = stageReplace
	_ = unix.Kill(s.shell.pid, unix.SIGKILL)
}

// sameCommandLine reports whether two processes were executed with the same
// arguments, as is a process that was forked and has not executed yet.
func sameCommandLine(a, b int) bool {
	one, err := os.ReadFile("/proc/" + itoa(a) + "/cmdline")
	two, err2 := os.ReadFile("/proc/" + itoa(b) + "/cmdline")
	return err == nil && err2 == nil && len(one) > 0 && bytes.Equal(one, two)
}
