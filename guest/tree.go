package guest

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
)

// A family describes the processes that one request started, so that they can
// be found again whatever they did: descendants of the leader, members of its
// session, and whoever holds its pipes (a daemon that left both).
type family struct {
	leader int
	gone   bool     // the leader has been reaped: its number may be anybody's
	pipes  []string // what /proc/PID/fd/N links to, "pipe:[1234]"
}

// members picks the family's living processes out of all.
// holds reports whether a process has one of the pipes open; unknown counts
// the processes of which that cannot be told.
func (f *family) members(all []proc.Process, holds func(pid int) (bool, error)) (found []int, unknown int) {
	parent := make(map[int]int, len(all))
	reused := false
	for _, t := range all {
		parent[t.PID] = t.Parent
		reused = reused || f.gone && t.PID == f.leader
	}
	descends := func(pid int) bool {
		for range len(all) { // a parent chain cannot be longer
			if pid == f.leader {
				return true
			}
			p, ok := parent[pid]
			if !ok {
				return false
			}
			pid = p
		}
		return false
	}
	for _, t := range all {
		if t.Dead() {
			continue
		}
		// While a member lives the kernel does not give the session's number
		// away, so it is only to be distrusted once it is a process again.
		ours := !reused && t.Session == f.leader || !f.gone && descends(t.PID)
		if !ours {
			var err error
			if ours, err = holds(t.PID); err != nil {
				unknown++
			}
		}
		if ours {
			found = append(found, t.PID)
		}
	}
	return found, unknown
}

// holds reports whether a process has one of the family's pipes open. The
// error is EACCES for a process that is not dumpable, which every process is
// for a moment while it executes a program.
func (f *family) holds(pid int) (bool, error) {
	if len(f.pipes) == 0 {
		return false, nil
	}
	fds := "/proc/" + strconv.Itoa(pid) + "/fd"
	dir, err := os.Open(fds)
	if err != nil {
		return false, ignoreGone(err)
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		link, err := os.Readlink(fds + "/" + name)
		if errors.Is(err, fs.ErrPermission) {
			return false, err
		}
		if slices.Contains(f.pipes, link) {
			return true, nil
		}
	}
	return false, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// signal sends sig to the whole family once, and makes sure that it is seen:
// a stopped process is continued.
func (f *family) signal(sig syscall.Signal) {
	found, _ := f.members(proc.Others(), f.holds)
	for _, pid := range found {
		_ = unix.Kill(pid, sig)
		_ = unix.Kill(pid, unix.SIGCONT)
	}
}

// kill kills the whole family. Everybody is stopped first, until no new member
// shows up, so that nobody forks away. It ends when a look after the kill
// finds nobody that it has not killed already, and nobody of whom it cannot
// tell: that may be a process of ours that is just executing a program, so it
// looks again a few times. A daemon that has left the tree and the session and
// is not dumpable for good escapes; it ends with the sandbox.
//
// It returns those that it has killed, when they are dead.
func (f *family) kill() (pids []int) {
	const (
		rounds = 50 // a bound, in case somebody outside the family feeds it
		looks  = 10 // at processes of which we cannot tell
		pause  = 2 * time.Millisecond

		deathLimit = 5 * time.Second
	)
	killed := map[int]bool{}
	var dying proc.Dying
	defer dying.Wait(deathLimit)
	for look := 0; look < looks; {
		added, unknown := f.stop(killed, rounds)
		pids = append(pids, added...)
		for _, pid := range added {
			dying.Add(pid)
		}
		for pid := range killed {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		switch {
		case len(added) > 0:
		case unknown == 0:
			return pids
		default:
			look++
			time.Sleep(pause)
		}
	}
	return pids
}

// stop stops the members that are not in known, until it finds no more, and
// adds them to known. It returns those that it has added, and how many
// processes it could not tell about.
func (f *family) stop(known map[int]bool, rounds int) (added []int, unknown int) {
	for range rounds {
		before := len(added)
		var found []int
		found, unknown = f.members(proc.Others(), f.holds)
		for _, pid := range found {
			if !known[pid] {
				known[pid] = true
				added = append(added, pid)
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
		if len(added) == before {
			break
		}
	}
	return added, unknown
}
