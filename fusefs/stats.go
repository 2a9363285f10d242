package fusefs

import "wolffia/fusefs/gate"

// Stats are counters of a Server.
type Stats struct {
	Messages map[string]uint64 // requests answered, by operation
	Nodes    int               // names that the kernel knows
	FDs      int               // descriptors in the cache
	Changes  uint64            // changes by the host; the kernel may merge several into one
}

// Stats returns the present counts.
func (s *Server) Stats() Stats {
	st := Stats{Messages: map[string]uint64{}, Nodes: int(s.tree.table.count.Load()), FDs: s.tree.fds.count()}
	if w := s.tree.watch; w != nil {
		st.Changes = w.changes.Load()
	}
	for o := range gate.Ops {
		if n := s.tree.respond.counts[o].Load(); n != 0 && gate.Name(o) != "" {
			st.Messages[gate.Name(o)] = n
		}
	}
	return st
}
