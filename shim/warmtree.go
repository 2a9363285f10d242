package shim

import (
	"math"
	"time"

	"wolffia/internal/rootfs"
)

// How long warmTree waits for what runs inside.
const (
	// warmLate is for most sandboxes: what runs longer is a server, a terminal, or a build to which a fifth of a second is little.
	warmLate = 2 * time.Second
	// warmIdle is for as long as something runs.
	warmIdle = time.Duration(math.MaxInt64)
)

// warmLater has the tree listed ahead soon, when nothing runs inside or has run for late.
func (s *shim) warmLater(late time.Duration) {
	if s.warms() {
		s.warmer.Store(time.AfterFunc(warmAfter, func() { s.warmTree(late) }))
	}
}

// warms reports whether the sandbox has a tree that is listed ahead.
func (s *shim) warms() bool { return s.tree != nil && s.boot.Engine == "" }

// warmTree lists the tree ahead while nothing runs inside: what runs needs the processors and the tree server itself. When something
// has run for late, it is listed beside that, and in any case at once if that goes through the tree by name after name
// (fusefs.Options.Walked), since that is what takes long then. It reports whether all is listed: not if it gets no turn, or if another
// call lists the tree already.
func (s *shim) warmTree(late time.Duration) bool {
	if !s.inWarm.CompareAndSwap(false, true) {
		return false
	}
	defer s.inWarm.Store(false)
	defer s.hurried.Store(false)
	defer time.AfterFunc(late, s.warmAnyway).Stop()
	inTheWay := func() bool {
		busy, _ := s.relay.use()
		return busy && !s.hurried.Load()
	}
	for w := newWarmer(rootfs.TreeDir(s.boot), s.warmMost); !w.done(); {
		s.relay.awaitIdle(s.hurried.Load)
		done, ok := warmTurn(s.boot.Config.UID)
		if !ok {
			return false
		}
		s.warming.Store(true)
		w.run(inTheWay)
		s.warming.Store(false)
		done()
	}
	return true
}

// warmMost returns how many names warmTree lists at most.
func (s *shim) warmMost() int {
	const perName = 8192 // of the sandbox's memory: twice what the tree server has for each (fusefs.Options.Memory)
	most := warmLimit
	if s.wholly.Load() {
		most = walkLimit
	}
	if m := s.boot.Config.Resources.Memory; m > 0 {
		most = min(most, int(m/perName))
	}
	return most
}

// warmAnyway has warmTree not wait for what runs inside, until it ends.
func (s *shim) warmAnyway() {
	s.hurried.Store(true)
	s.relay.recheck()
}

// warmWholly lists the tree at once and to its end, for somebody who goes through it, or in a spare. It reports whether all is listed.
func (s *shim) warmWholly() bool {
	s.wholly.Store(true)
	s.warmAnyway() // the call of warmTree that waits, or else the next one
	return s.warmTree(warmIdle)
}
