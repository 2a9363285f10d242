package fusefs

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Wait waits until the tree is no longer served.
func (s *Server) Wait() { <-s.done }

// Close stops answering and waits for the requests under way. Who uses the
// mount gets ENOTCONN from then on; unmounting it is for who mounted it.
// Close may be called twice.
//
// The readers wait inside read(2), where closing the descriptor does not reach
// them. So its number is given to something that cannot be read, and they are
// made to try again.
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
		// The number is another's if the tree was unmounted just now.
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

// nudge interrupts the system calls of all threads of this process, with the
// signal that the runtime uses for that and takes from anybody.
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

// Stats count what a Server did and holds.
type Stats struct {
	Messages map[string]uint64 // requests answered, by operation
	Nodes    int               // names that the kernel knows
	FDs      int               // descriptors kept open
	Changes  uint64            // noticed of those made outside; a few are often noticed as one
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
