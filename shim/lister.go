package shim

import (
	"math"
	"sync/atomic"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/shim/warm"
)

// How long a lister waits for what runs inside.
const (
	warmLate = 2 * time.Second // for most sandboxes: what runs longer is a server, a terminal, or a build to which a fifth of a second is little
	warmIdle = time.Duration(math.MaxInt64)
)

// How many entries of a codebase are loaded into the kernel's dentry cache in advance. Each takes 1 to 2 kB of memory, most of it in the
// kernel. Who goes through the tree asks for all of them anyway.
const warmLimit, walkLimit = 25_000, 500_000

// warmAfter is when warm begins, so that it takes no processor from the command that most callers start at once.
const warmAfter = 5 * time.Millisecond

// A lister has the tree of a sandbox listed ahead, by a [warm.Tree], while nothing runs inside: what runs needs the processors and the
// tree server itself. When something has run for long, it is listed beside that, and in any case at once if that goes through the tree
// by name after name (fusefs.Options.OnSequentialLookup), since that is what takes long then. Its methods are safe for concurrent use; those of a
// nil lister, of a sandbox whose tree is not listed ahead, do nothing.
type lister struct {
	params *boot.Params
	relay  *relay

	timer   atomic.Pointer[time.Timer] // of later
	lists   atomic.Bool                // list runs
	hurried atomic.Bool                // it waits for nothing that runs
	wholly  atomic.Bool                // it lists also a very large tree
	links   atomic.Bool                // what list has left for an idle time waits for that, or is done
	works   atomic.Bool                // a warmer runs
	over    atomic.Bool                // nothing more begins
}

// later has the tree listed soon, when nothing runs inside or has run for late.
func (l *lister) later(late time.Duration) {
	if l != nil {
		l.timer.Store(time.AfterFunc(warmAfter, func() { l.list(late) }))
	}
}

// now lists the tree at once and to its end, for somebody who goes through it, or in a spare. It reports whether all is listed.
func (l *lister) now() bool {
	if l == nil {
		return false
	}
	l.wholly.Store(true)
	l.hurry() // the call of list that waits, or else the next one
	return l.list(warmIdle)
}

// listLimit is how long the shim lists the tree at most before it offers the spare. A start may take three times as long.
const listLimit = 20 * time.Second

// ahead lists the tree, and reports whether all is listed. After listLimit the listing goes on in the background.
func (l *lister) ahead() bool {
	done := make(chan bool, 1)
	go func() { done <- l.now() }()
	select {
	case all := <-done:
		return all
	case <-time.After(listLimit):
		return false
	}
}

// cancel has nothing more begin.
func (l *lister) cancel() {
	if l == nil {
		return
	}
	l.over.Store(true)
	if timer := l.timer.Load(); timer != nil {
		timer.Stop()
	}
}

// working reports whether the tree is being listed.
func (l *lister) working() bool { return l != nil && l.works.Load() }

// list lists the tree when nothing runs inside or has run for late. It reports whether all is listed: not if it gets no turn, or if
// another call lists the tree already. What can only follow in an idle time then goes on in the background.
func (l *lister) list(late time.Duration) bool {
	if !l.lists.CompareAndSwap(false, true) {
		return false
	}
	defer l.lists.Store(false)
	defer l.hurried.Store(false)
	defer time.AfterFunc(late, l.hurry).Stop()
	w := warm.New(rootfs.TreeDir(l.params), l.most)
	if !l.have(w, l.hurried.Load) {
		return false
	}
	if linked := w.Linked(); linked != nil && l.links.CompareAndSwap(false, true) {
		go func() { // ends with the sandbox, at which something may still run inside
			defer l.links.Store(false)
			l.have(linked, func() bool { return false })
		}()
	}
	return true
}

// have has w do its work while nothing runs inside, or while hurried returns true. It reports whether all is done: not if it gets no
// turn.
func (l *lister) have(w *warm.Tree, hurried func() bool) bool {
	inTheWay := func() bool {
		busy, _ := l.relay.use()
		return busy && !hurried()
	}
	for !w.Done() {
		l.relay.awaitIdle(hurried)
		if l.over.Load() {
			return false
		}
		done, ok := warm.Turn(l.params.Config.UID)
		if !ok {
			return false
		}
		l.works.Store(true) // one warmer at a time: that of the turn
		w.Run(inTheWay)
		l.works.Store(false)
		done()
	}
	return true
}

// most returns how many names are listed at most.
func (l *lister) most() int {
	const perName = 8192 // of the sandbox's memory: twice what the tree server has for each (fusefs.Options.Memory)
	most := warmLimit
	if l.wholly.Load() {
		most = walkLimit
	}
	if m := l.params.Config.Resources.Memory; m > 0 {
		most = min(most, int(m/perName))
	}
	return most
}

// hurry has list not wait for what runs inside, until it ends.
func (l *lister) hurry() {
	l.hurried.Store(true)
	l.relay.recheck()
}
