package shim

import (
	"time"

	"wolffia/internal/rootfs"
)

// warmLate is how long warmTree waits for what runs inside. What runs longer is a server, a terminal, or a build to which a fifth
// of a second is little.
const warmLate = 2 * time.Second

// warmTree lists the tree ahead while nothing runs inside: what runs needs the processors and the tree server itself. With late it
// is listed beside that when something has run for warmLate, and in any case at once if it goes through the tree by name after name
// (fusefs.Options.Walked), since that is what takes long then. warmTree ends when all is listed, or when it gets no turn.
func (s *shim) warmTree(late bool) {
	if !s.warmed.CompareAndSwap(false, true) {
		return
	}
	if late {
		defer time.AfterFunc(warmLate, s.warmAnyway).Stop()
	}
	inTheWay := func() bool {
		busy, _ := s.relay.use()
		return busy && !s.hurried.Load()
	}
	for w := newWarmer(rootfs.TreeDir(s.boot)); !w.done(); {
		s.relay.awaitIdle(s.hurried.Load)
		done, ok := warmTurn(s.boot.Config.UID)
		if !ok {
			return
		}
		s.warming.Store(true)
		w.run(inTheWay)
		s.warming.Store(false)
		done()
	}
}

// warmAnyway has warmTree not wait any more for what runs inside.
func (s *shim) warmAnyway() {
	s.hurried.Store(true)
	s.relay.recheck()
}

// helpWalk lists the tree for somebody who goes through it.
func (s *shim) helpWalk() {
	s.warmAnyway()
	s.warmTree(false)
}
