package session

import "wolffia/internal/proc"

// A scope describes the processes that a command has started, or, with
// nothing before it, those of a whole session.
type scope struct {
	shell  int            // the shell's process and session
	before map[int]uint64 // start of each process that was there before the command
	groups map[int]bool   // their process groups, the shell's own left out
	// holds reports whether a process has a stream of the command open: so a
	// daemon is found whose parents are gone.
	holds func(pid int) bool
	// mark is what all carry that the shell has started, a daemon that has left
	// its session, parents and streams among them; 0: not looked at.
	mark mark
	runs bool // the shell is not stopped while they are killed
}

// find picks the scope's living processes out of all, the shell left out.
//
// A process belongs if it was not there before and descends from the shell
// without an older process in between, or is in the shell's session, and is
// not in an older process group; or holds a stream; or has the mark and does not
// descend from an older process.
func (s *scope) find(all []proc.Process) (found []proc.Process) {
	byPID := make(map[int]*proc.Process, len(all))
	for i := range all {
		byPID[all[i].PID] = &all[i]
	}
	old := func(p *proc.Process) bool {
		start, ok := s.before[p.PID]
		return ok && start == p.Start
	}
	// from tells whether a process descends from the shell, and from an older one.
	from := func(p *proc.Process) (shell, older bool) {
		for range len(all) { // a chain of parents cannot be longer
			if s.shell != 0 && p.Parent == s.shell {
				return true, false
			}
			if p = byPID[p.Parent]; p == nil || old(p) {
				return false, p != nil
			}
		}
		return false, false
	}
	for i := range all {
		p := &all[i]
		if p.PID == s.shell || p.Dead() || old(p) {
			continue
		}
		descends, inherited := from(p)
		ours := s.shell != 0 && !s.groups[p.Group] && (p.Session == s.shell || descends)
		if ours || s.holds != nil && s.holds(p.PID) || !inherited && !s.groups[p.Group] && s.mark.on(p.PID) {
			found = append(found, *p)
		}
	}
	return found
}
