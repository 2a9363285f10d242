package shim

import "wolffia/internal/rootfs"

// warmTree lists the tree ahead while nothing runs inside: what runs needs the processors and the tree server itself. Only if it
// goes through the tree by name after name (fusefs.Options.Walked) it is listed at once, since that is what takes long then. warmTree
// ends when all is listed, or when it gets no turn.
func (s *shim) warmTree() {
	if !s.warmed.CompareAndSwap(false, true) {
		return
	}
	w, err := newWarmer(rootfs.TreeDir(s.boot))
	if err != nil {
		return
	}
	defer w.close()
	for !w.done() {
		s.relay.awaitIdle(s.walked.Load)
		done, ok := warmTurn(s.boot.Config.UID)
		if !ok {
			return
		}
		s.warming.Store(true)
		w.run(func() bool { return s.relay.inUse() && !s.walked.Load() })
		s.warming.Store(false)
		done()
	}
}

// helpWalk lists the tree for somebody who goes through it.
func (s *shim) helpWalk() {
	s.walked.Store(true)
	s.relay.recheck() // by a warmTree that waits
	s.warmTree()
}
