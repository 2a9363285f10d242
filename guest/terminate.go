package guest

import (
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// terminate sends SIGTERM to all processes, until over is closed. An interactive shell ignores
// SIGTERM, and would run its next command as soon as the program that it waits for has died of
// SIGTERM. So terminate stops such a shell before, and continues it when its children have ended.
// The signals that are pending by then end it.
func (g *guest) terminate(over <-chan struct{}) {
	held := g.shells.Shutdown(over)
	for _, p := range proc.Others() {
		if _, known := held[p.PID]; known || p.Dead() {
			continue
		}
		if does := proc.SignalsOf(p.PID); interactive(&does) || p.Terminal && p.PID == p.Session && does.Ignored.Has(unix.SIGTERM) {
			held[p.PID] = unix.SIGCONT
			_ = unix.Kill(p.PID, unix.SIGSTOP)
			_ = unix.Kill(p.PID, unix.SIGHUP)
		}
	}
	_ = unix.Kill(-1, unix.SIGTERM)
	for _, p := range proc.Others() {
		if held[p.PID] == 0 {
			_ = unix.Kill(p.PID, unix.SIGCONT)
		}
	}
	for pid, due := range held {
		if due == 0 {
			continue
		}
		go func() { // ends with PID 1 at the latest
			if awaitChildless(pid, over) {
				_ = unix.Kill(pid, due)
			}
		}()
	}
}

// interactive reports whether a process is an interactive shell by what it does with signals: it
// ignores SIGTERM and SIGQUIT, as a script that ignores SIGTERM does not. While bash makes a process,
// it blocks SIGTERM and does not ignore it (make_child in jobs.c); it has a handler for SIGHUP then, as
// a script has for SIGTERM too. What children a shell has says nothing: one may be made just now.
func interactive(does *proc.Signals) bool {
	making := does.Blocked.Has(unix.SIGTERM) && !does.Caught.Has(unix.SIGTERM) && does.Caught.Has(unix.SIGHUP)
	return does.Ignored.Has(unix.SIGQUIT) && (does.Ignored.Has(unix.SIGTERM) || making)
}

// awaitChildless waits until a process has no child that lives, or until over is closed: then it
// returns false.
func awaitChildless(pid int, over <-chan struct{}) bool {
	for {
		all := proc.Others()
		i := slices.IndexFunc(all, func(c proc.Process) bool { return c.Parent == pid && !c.Dead() })
		if i < 0 {
			return true
		}
		proc.Await(all[i].PID, over)
		select {
		case <-over:
			return false
		default:
		}
	}
}
