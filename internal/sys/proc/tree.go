package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Tree describes the processes that a command has started, so that they are found
// whatever they did: descendants of Root, members of its session, and processes that
// hold its files or have its mark, such as a daemon that has left both.
type Tree struct {
	Root   int            // a session leader; 0: none
	Shell  bool           // Root outlives its commands, and is not in the tree
	Reaped bool           // Root was waited for: its number may be that of another process
	Before map[int]uint64 // start of each process that was there before the command
	Groups map[int]bool   // their process groups, Root's own left out
	Files  []File         // the command's pipes
	Mark   Mark           // of all that Root has started; 0: none
	Known  map[int]uint64 // start of each process that was found in it before
	// Running says that Root is not stopped while the others are killed.
	Running bool
}

// Find returns the tree's living processes among all; unknown counts those that
// may be in the tree, but cannot be examined.
//
// A process is in the tree if it was not there before and either is known, descends from Root or a
// known one without an older process in between, or is in Root's session, and is not in an older
// process group; or holds a file; or has the mark, is not in an older group, and does not descend
// from an older process.
func (t *Tree) Find(all []Process) (found []Process, unknown int) {
	return t.find(all, t.Mark.on, func(pid int) (bool, error) { return Holds(pid, t.Files) })
}

func (t *Tree) find(all []Process, marked func(pid int) bool, holds func(pid int) (bool, error)) (found []Process, unknown int) {
	byPID := make(map[int]*Process, len(all))
	for i := range all {
		byPID[all[i].PID] = &all[i]
	}
	root := t.Root
	// While a member of a session lives, the kernel does not give its number away: so
	// a reaped Root's is to be distrusted only once it is a process again.
	if t.Reaped && byPID[root] != nil {
		root = 0
	}
	old := func(p *Process) bool {
		start, ok := t.Before[p.PID]
		return ok && start == p.Start
	}
	// descends reports whether a process descends from Root or a known one, or from an older one.
	descends := func(p *Process) (fromRoot, fromOld bool) {
		for range len(all) { // a chain of parents cannot be longer
			if start, known := t.Known[p.PID]; known && start == p.Start || root != 0 && !t.Reaped && (p.PID == root || p.Parent == root) {
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
		if p.Dead() || old(p) || t.Shell && p.PID == t.Root {
			continue
		}
		fromRoot, fromOld := descends(p)
		in := !t.Groups[p.Group] && (root != 0 && p.Session == root || fromRoot || !fromOld && marked(p.PID))
		if !in {
			var err error
			if in, err = holds(p.PID); err != nil {
				unknown++
			}
		}
		if in {
			found = append(found, *p)
		}
	}
	return found, unknown
}

// Signal sends sig to all processes of the tree once, see [Send]. It returns them for Known: what
// has left Root's session is found by its parents only, and they may end by the signal.
func (t *Tree) Signal(sig unix.Signal) (known map[int]uint64) {
	found, _ := t.Find(Others())
	known = make(map[int]uint64, len(found))
	for _, p := range found {
		known[p.PID] = p.Start
		_ = Send(p.PID, sig)
	}
	return known
}

// Kill kills all processes of the tree, and returns those that it has killed when
// they are dead, but need not be reaped yet, or after limit; see [KillAll].
func (t *Tree) Kill(limit time.Duration) (killed []int) {
	first := unix.SIGSTOP
	if t.Running {
		first = unix.SIGKILL
	}
	return KillAll(first, limit, func() (pids []int, unknown int) {
		found, unknown := t.Find(Others())
		for _, p := range found {
			pids = append(pids, p.PID)
		}
		return pids, unknown
	})
}

// KillAll kills the processes that find finds, and returns those that it has killed
// when they are dead, or after limit. All get the signal first before any is killed,
// until find has no new one: with SIGSTOP none of them can fork meanwhile.
//
// It ends when a look after the kill has found no new process, and none that cannot be
// examined: that may be one of the tree that is executing a program just now, so it
// looks again a few times. A daemon that has left the tree and the session, and is never
// dumpable, escapes; it ends with the sandbox.
func KillAll(first unix.Signal, limit time.Duration, find func() (pids []int, unknown int)) (killed []int) {
	const (
		rounds = 50 // a bound, in case a process outside the tree feeds it
		looks  = 10 // at processes that cannot be examined
	)
	var dying []int // descriptors
	known := map[int]bool{}
	for look := 0; look < looks; {
		before, unknown := len(killed), 0
		for range rounds {
			var pids []int
			pids, unknown = find()
			last := len(killed)
			for _, pid := range pids {
				if known[pid] {
					continue
				}
				known[pid] = true
				killed = append(killed, pid)
				_ = unix.Kill(pid, first)
			}
			if len(killed) == last {
				break
			}
		}
		for _, pid := range killed[before:] {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				dying = append(dying, fd)
			}
		}
		for _, pid := range killed {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(killed) > before {
			continue
		}
		if unknown == 0 {
			break
		}
		look++
		time.Sleep(pause)
	}
	end := time.Now().Add(limit)
	for _, fd := range dying {
		_, _ = AwaitDeath(fd, end)
		_ = unix.Close(fd)
	}
	return killed
}
