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
	all := proc.Others()
	for _, p := range all {
		_, known := held[p.PID]
		if known || p.Dead() || !proc.Ignores(p.PID, unix.SIGTERM) {
			continue
		}
		if p.Terminal && p.PID == p.Session || waits(p, all) {
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

// waits reports whether a process that ignores SIGTERM has a child that SIGTERM ends, as an
// interactive shell has. The children of a script that ignores SIGTERM ignore it too.
func waits(p proc.Process, all []proc.Process) bool {
	return slices.ContainsFunc(all, func(c proc.Process) bool {
		return c.Parent == p.PID && !c.Dead() && !proc.Ignores(c.PID, unix.SIGTERM)
	})
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
