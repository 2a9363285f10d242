package fusefs

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Wait blocks until the tree is no longer served.
func (s *Server) Wait() { <-s.done }

// Close stops the server and waits for requests in progress. Later use of the mount fails with
// ENOTCONN; the process that mounted it unmounts it. Close may be called several times.
//
// Closing the descriptor does not interrupt a read(2) of it. So Close replaces the descriptor
// by one that cannot be read, and interrupts the readers by a signal.
func (s *Server) Close() error {
	select {
	case <-s.done:
		return nil
	default:
	}
	s.closing.Do(func() {
		d := s.tree.dev
		d.closed.Store(true)
		var st unix.Stat_t
		// After an unmount just now, the number may be another file's.
		if unix.Fstat(d.fd, &st) == nil && st.Rdev == s.rdev {
			unix.Dup3(s.tree.root.fd, d.fd, unix.O_CLOEXEC) // O_PATH
		}
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		nudge()
		select {
		case <-s.done:
			return nil
		case <-tick.C:
		}
	}
}

// nudge interrupts the system calls of all threads of this process, with the signal that the
// Go runtime itself uses for preemption.
func nudge() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
		}
	}
}

// Stats are counters of a Server.
type Stats struct {
	Messages map[string]uint64 // requests answered, by operation
	Nodes    int               // names that the kernel knows
	FDs      int               // descriptors in the cache
	Changes  uint64            // changes by the host, of which the kernel may merge several
}

// Stats returns the present counts.
func (s *Server) Stats() Stats {
	st := Stats{Messages: map[string]uint64{}, Nodes: int(s.tree.table.count.Load()), FDs: s.tree.fds.count()}
	if w := s.tree.watch; w != nil {
		st.Changes = w.changes.Load()
	}
	for o := range s.tree.counts {
		if n := s.tree.counts[o].Load(); n != 0 {
			st.Messages[gate[o].name] = n
		}
	}
	return st
}
