package guest

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// A reaper waits for every child of PID 1: children that it started, and orphans that the kernel
// reparents to PID 1. The zero reaper is not usable; see newReaper.
type reaper struct {
	limits  *limiter                            // for started processes; may be nil
	mu      sync.Mutex                          // held over a fork, so that no exit is reported before its owner is known
	started *sync.Cond                          // signalled when a child appears; uses mu
	reaped  *sync.Cond                          // signalled when a process has been reaped; uses mu
	owners  map[int]func(ws syscall.WaitStatus) // by pid; guarded by mu
	alive   bool                                // there may be children; guarded by mu
	empty   chan struct{}                       // closed when asked for and no child is left
}

// newReaper starts to reap; it does so until the process ends.
func newReaper(limits *limiter) *reaper {
	r := &reaper{limits: limits, owners: map[int]func(syscall.WaitStatus){}}
	r.started, r.reaped = sync.NewCond(&r.mu), sync.NewCond(&r.mu)
	go r.run() // ends with the process
	return r
}

// start forks and executes a process with a umask. The reaper's goroutine calls changed each time
// the process stops, and once when it has ended. changed must not block.
func (r *reaper) start(umask wire.Umask, path string, args []string, attr *syscall.ProcAttr, changed func(syscall.WaitStatus)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if umask != 0 { // a process has its parent's; what PID 1 makes itself meanwhile is the user's alone
		unix.Umask(umask.Mask())
		defer unix.Umask(wire.Umask(0).Mask())
	}
	pid, err := r.limits.forkExec(path, args, attr)
	if err != nil {
		return 0, err
	}
	r.owners[pid] = changed
	r.alive = true
	r.started.Signal()
	return pid, nil
}

// mine reports whether start has made this process, and it has not been reaped.
func (r *reaper) mine(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owners[pid] != nil
}

// idle returns a channel that is closed as soon as no child is left.
func (r *reaper) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = make(chan struct{})
	empty := r.empty
	if !r.alive {
		close(empty)
		r.empty = nil
	}
	return empty
}

// awaitReaped waits until none of these processes is a zombie child, which still counts as a
// process (RLIMIT_NPROC in getrlimit(2)).
func (r *reaper) awaitReaped(pids []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pid := range pids {
		for dead, _ := isDead(pid); dead; dead, _ = isDead(pid) {
			r.reaped.Wait()
		}
	}
}

// awaitGone waits until a child that was killed is dead, and then reaped.
func (r *reaper) awaitGone(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		continue
	}
	r.awaitReaped([]int{pid})
}

// isAlive reports whether a process that was a child is one that is not dead.
func isAlive(pid int) bool {
	dead, child := isDead(pid)
	return child && !dead
}

// isDead reports whether a child is dead, and whether there is such a child, which has not been
// waited for.
func isDead(pid int) (dead, child bool) {
	var info unix.Siginfo // stays empty if it is alive (waitid(2))
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0, err == nil
}

func (r *reaper) run() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		r.mu.Lock()
		switch err {
		case nil:
			r.reaped.Broadcast()
			if changed := r.owners[pid]; changed != nil {
				if !ws.Stopped() {
					delete(r.owners, pid)
				}
				changed(ws)
			}
		case syscall.ECHILD:
			// PID 1 has no child: every child that start registered has ended too. start holds mu
			// from the fork on, so nothing is missed.
			if len(r.owners) == 0 {
				r.alive = false
				if r.empty != nil {
					close(r.empty)
					r.empty = nil
				}
				for !r.alive {
					r.started.Wait()
				}
			}
		}
		r.mu.Unlock()
	}
}
