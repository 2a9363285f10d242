package session

import (
	"bytes"
	"crypto/rand"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
)

// The times between the steps against a command whose time is over, each from the step
// before. They are intervals, not points in time: a host that lets a sandbox wait for
// seconds would else take all steps at once, and replace a shell that had no chance.
const (
	untilAsk  = 50 * time.Millisecond  // from SIGINT: ask again for the report
	untilTerm = 250 * time.Millisecond // from there
	untilKill = 300 * time.Millisecond
	untilLook = 100 * time.Millisecond // again and again
)

// How often a shell is checked after SIGKILL before it is replaced. A shell that burns time inside
// a builtin handles signals late, but returns to its prompt: it gets longer, unless it has a trap
// on SIGINT. So only checks that find it idle count for maxLooks: on a busy host one check alone
// proves little.
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
func (r *run) interrupt() {
	if r.stage != stageNone {
		return
	}
	r.stage = stageInt
	r.interruptForeground()
	r.alarms.set(escalation, untilAsk)
}

// interruptForeground interrupts the foreground process group, and makes the shell leave the
// command when that is over.
func (r *run) interruptForeground() {
	r.target = r.shell.foreground()
	r.preExec = r.target != r.shell.pid && sameCommandLine(r.target, r.shell.pid)
	r.shell.frozen = r.shell.frozen || !r.shell.atPrompt() && (!r.shell.trapsGuard() || r.saved.ignoresSignals(r.text))
	if r.shell.frozen && !r.shell.stoppable() {
		r.stage = stageReplace
		r.killAll()
		return
	}
	r.shell.atOnce(func() {
		r.shell.guard()
		if r.target != 0 || !r.shell.atPrompt() { // else it has not begun, or is over
			r.interruptNow()
		}
	})
}

// interruptNow sends SIGINT to the foreground; not to a shell that executes a command itself: that
// the guard has leave, between two commands, and its trap on SIGINT would be run twice. bash waits
// for $(...) in its own group: it gets one then, too. A SIGINT has busybox ash jump from wherever
// it is, also out of a function of its C library that holds a lock: the shell waits for that lock
// for ever (clearerr in evalbltin, shell/ash.c of 1.35).
func (r *run) interruptNow() {
	if r.shell.foreground() != r.shell.pid || r.shell.atPrompt() {
		r.signal(unix.SIGINT)
		return
	}
	found, _ := r.tree().Find(proc.Others())
	alone := true
	for _, p := range found {
		if p.Group == r.shell.pid {
			alone = false
			_ = unix.Kill(p.PID, unix.SIGINT)
		}
	}
	if !alone && !r.shell.d.POSIX {
		_ = unix.Kill(r.shell.pid, unix.SIGINT)
	}
}

// stoppable reports whether the shell can be stopped for a moment. In gVisor a
// stopped process group gets SIGHUP whenever a process leaves it. Linux
// looks whether that has made it an orphan (EXIT in setpgid(2)).
func (p *shellProcess) stoppable() bool { return p.foreground() != 0 }

// atOnce makes all signals that f sends arrive at the shell together, after f, if the shell is
// stoppable. So the shell does not run the next program if one ends meanwhile. And a bash that
// waits for its next line survives: one that gets SIGINT while it runs the trap of another signal
// executes the bytes behind its buffer (getc_with_restart in 5.2), and crashes sooner or later.
func (p *shellProcess) atOnce(f func()) {
	if p.stoppable() {
		_ = unix.Kill(p.pid, unix.SIGSTOP)
		if !p.frozen {
			defer unix.Kill(p.pid, unix.SIGCONT)
		}
	}
	f()
}

// guard makes the shell leave the command once the program that it waits for has ended. Without
// guard the shell would continue, unless the program has died of SIGINT. guard does nothing to a
// shell at its prompt, for the reason in atOnce.
func (p *shellProcess) guard() {
	if p.frozen || p.atPrompt() {
		return
	}
	p.trapped = true
	_ = unix.Kill(p.pid, dialect.GuardSignal)
}

// signal sends sig to the process group in the foreground.
func (r *run) signal(sig syscall.Signal) {
	switch group := r.shell.foreground(); {
	case group == 0 && r.shell.typeSignal(sig):
	case group == 0 && sig == unix.SIGKILL:
		r.killAll()
	case group == 0:
		r.sweep(sig)
		_ = unix.Kill(r.shell.pid, sig)
	case group == r.shell.pid: // it may be stopped for a moment: see atOnce
		if unix.Kill(-group, sig) != nil {
			_ = unix.Kill(r.shell.pid, sig)
		}
	case proc.Send(-group, sig) != nil:
		_ = unix.Kill(r.shell.pid, sig)
	}
}

// escalate takes the next step.
func (r *run) escalate() {
	if r.shell.frozen {
		r.escalateFrozen()
		return
	}
	switch r.stage {
	case stageInt:
		r.stage = stageAsk
		// A process that was just being started has another group by now, or still had the shell's
		// handler, and has lost the signal.
		if r.preExec || r.target == 0 || r.target != r.shell.foreground() {
			r.interruptForeground()
		}
		r.shell.send(r.shell.d.Report(r.nonce)) // if the interrupt hit the first one
		r.alarms.set(escalation, untilTerm)
	case stageAsk:
		r.stage = stageTerm
		r.shell.atOnce(func() {
			r.shell.guard()
			r.sweep(unix.SIGTERM)
			if !r.shell.atPrompt() {
				_ = unix.Kill(r.shell.pid, unix.SIGINT)
			}
			_ = unix.Kill(r.shell.pid, unix.SIGTERM) // an interactive shell ignores it, a trap sees it
		})
		r.alarms.set(escalation, untilKill)
	case stageTerm:
		r.stage = stageKill
		r.killCommand()
		r.alarms.set(escalation, untilLook)
	case stageKill:
		if r.looks++; !r.shell.returnsToPrompt() {
			r.idle++
		}
		switch {
		case r.looks >= maxLooksBusy || r.idle >= maxLooks:
			r.stage = stageReplace
			r.killAll() // its exit ends the run
			return
		case r.shell.hasReadAll():
			r.shell.send(r.shell.d.Report(r.nonce)) // an interrupt hit that one too
		case r.hasProcesses(): // started since, by a trap for one
			r.killCommand()
		}
		r.alarms.set(escalation, untilLook)
	}
}

// escalateFrozen takes the next step against the processes of a frozen shell. The shell reports
// nothing, so escalateFrozen decides by the processes that are left.
func (r *run) escalateFrozen() {
	if r.stage == stageInt {
		r.stage = stageTerm
		r.sweep(unix.SIGTERM)
		r.alarms.set(escalation, untilTerm+untilKill)
		return
	}
	r.stage = stageReplace
	r.killAll()
}

// killCommand kills what the command has started, and interrupts the shell.
func (r *run) killCommand() {
	r.shell.atOnce(func() {
		r.shell.guard()
		r.sweep(unix.SIGKILL)
		_ = unix.Kill(r.shell.pid, unix.SIGINT)
	})
	r.shell.send(r.shell.d.Report(r.nonce))
}

// returnsToPrompt reports whether the shell can be expected to answer yet: it uses a processor,
// or waits for one or for the disk, as it does for long on a busy host; or it only has to
// read its next line; and it has no trap on SIGINT that would
// keep it so. bash handles SIGINT itself when it has no trap, and then ignores it
// nowhere; what a trap looks like from outside is not told apart, so only a shell
// that ignores it is not waited for.
func (p *shellProcess) returnsToPrompt() bool {
	if proc.Ignores(p.pid, unix.SIGINT) {
		return false
	}
	now, err := proc.Read(p.pid)
	return p.atPrompt() || err == nil && (now.State == 'R' || now.State == 'D')
}

// hasProcesses reports whether the command has processes.
func (r *run) hasProcesses() bool {
	found, _ := r.tree().Find(proc.Others())
	return len(found) > 0
}

// deathLimit bounds how long the session waits for processes that it has killed.
const deathLimit = 250 * time.Millisecond

// sweep sends a signal to all processes of the command. Before SIGKILL it stops them, so that none
// forks meanwhile, if the shell is stopped too (atOnce): otherwise the shell would take a program
// for one that a person has stopped.
func (r *run) sweep(sig syscall.Signal) {
	if sig == unix.SIGKILL {
		r.tree().Kill(deathLimit) // the shell sees their death before it does anything else
		return
	}
	r.tree().Signal(sig)
}

// killAll kills the command and the shell, which runs nothing more meanwhile. In gVisor the shell
// may die of the SIGHUP instead that stoppable describes.
func (r *run) killAll() {
	if !r.shell.ended {
		_ = unix.Kill(r.shell.pid, unix.SIGSTOP)
		defer unix.Kill(r.shell.pid, unix.SIGKILL)
	}
	r.sweep(unix.SIGKILL)
}

// checkLost checks whether the shell sits at its prompt and has not answered. It then asks the
// shell again, and later repairs it. It reports whether the caller must replace the shell.
func (r *run) checkLost() (replace bool) {
	if r.in.open && r.call != nil && r.call.closed {
		r.feed()
	}
	if r.alarms.due[reportCheck].IsZero() {
		r.alarms.set(reportCheck, lostTick)
	} else if r.alarms.due[reportCheck].Sub(r.alarms.clock.Now()) < lostTick/2 {
		return false // it came for the input only
	}
	if r.stage != stageNone {
		return false // the ladder does the same
	}
	r.checkKeys()
	if r.stage != stageNone {
		return false
	}
	outOfSync := r.shell.outOfSync()
	if !r.shell.hasReadAll() && !outOfSync {
		r.atPrompt = 0
		return false
	}
	if r.atPrompt++; r.atPrompt < 2 {
		return false
	}
	if outOfSync {
		r.abandon()
		return false
	}
	if r.asked++; r.asked > 1 && r.tries < maxTries && !r.wasRead() {
		return true // it did not even come to the text
	}
	// With another nonce: the command's own report may still come, if the shell
	// is only slow.
	switch r.asked {
	case 1:
		r.again, r.second = rand.Text(), dialect.Reports{}
		r.shell.send(r.shell.d.Report(r.again))
	case 2:
		r.shell.send(append(r.shell.d.Repair(), r.shell.d.Report(r.again))...)
		r.alarms.set(reportCheck, lostFinal)
	default:
		r.abandon()
	}
	return false
}

// abandon kills a shell that cannot be made to say how its command has ended.
func (r *run) abandon() {
	r.unknown = true
	r.stage = stageReplace
	_ = unix.Kill(r.shell.pid, unix.SIGKILL)
}

// sameCommandLine reports whether two processes were executed with the same
// arguments, as is a process that was forked and has not executed yet.
func sameCommandLine(a, b int) bool {
	one, err := os.ReadFile("/proc/" + itoa(a) + "/cmdline")
	two, err2 := os.ReadFile("/proc/" + itoa(b) + "/cmdline")
	return err == nil && err2 == nil && len(one) > 0 && bytes.Equal(one, two)
}
