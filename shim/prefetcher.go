package shim

import (
	"math"
	"sync/atomic"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/shim/prefetch"
)

// How long a lister waits for what runs inside.
const (
	prefetchLate = 2 * time.Second // for most sandboxes: what runs longer is a server, a terminal, or a build to which a fifth of a second is little
	prefetchIdle = time.Duration(math.MaxInt64)
)

// How many entries of a codebase are loaded into the kernel's dentry cache in advance. Each takes 1 to 2 kB of memory, most of it in the
// kernel. Who goes through the tree asks for all of them anyway.
const prefetchLimit, walkPrefetchLimit = 25_000, 500_000

// prefetchAfter is when prefetching begins, so that it takes no processor from the command that most callers start at once.
const prefetchAfter = 5 * time.Millisecond

// A prefetcher has the tree of a sandbox listed ahead, by a [prefetch.Tree], while nothing runs inside: what runs needs the processors and the
// tree server itself. When something has run for long, it is listed beside that, and in any case at once if that goes through the tree
// by name after name (fusefs.Options.OnSequentialLookup), since that is what takes long then. Its methods are safe for concurrent use; those of a
// nil prefetcher, of a sandbox whose tree is not listed ahead, do nothing.
type prefetcher struct {
	params *boot.Params
	relay  *relay

	timer     atomic.Pointer[time.Timer] // of later
	running   atomic.Bool                // list runs
	hurried   atomic.Bool                // it waits for nothing that runs
	large     atomic.Bool                // it lists also a very large tree
	links     atomic.Bool                // what list has left for an idle time waits for that, or is done
	walking   atomic.Bool                // a warmer runs
	cancelled atomic.Bool                // nothing more begins
}

// schedule has the tree listed soon, when nothing runs inside or has run for late.
func (p *prefetcher) schedule(late time.Duration) {
	if p != nil {
		p.timer.Store(time.AfterFunc(prefetchAfter, func() { p.run(late) }))
	}
}

// runNow lists the tree at once and to its end, for somebody who goes through it, or in a spare. It reports whether all is listed.
func (p *prefetcher) runNow() bool {
	if p == nil {
		return false
	}
	p.large.Store(true)
	p.hurry() // the call of list that waits, or else the next one
	return p.run(prefetchIdle)
}

// claimPrefetchLimit is how long the shim lists the tree at most before it offers the spare. A start may take three times as long.
const claimPrefetchLimit = 20 * time.Second

// runBeforeClaim lists the tree, and reports whether all is listed. After claimPrefetchLimit the listing goes on in the background.
func (p *prefetcher) runBeforeClaim() bool {
	done := make(chan bool, 1)
	go func() { done <- p.runNow() }()
	select {
	case all := <-done:
		return all
	case <-time.After(claimPrefetchLimit):
		return false
	}
}

// cancel has nothing more begin.
func (p *prefetcher) cancel() {
	if p == nil {
		return
	}
	p.cancelled.Store(true)
	if timer := p.timer.Load(); timer != nil {
		timer.Stop()
	}
}

// isWalking reports whether the tree is being listed.
func (p *prefetcher) isWalking() bool { return p != nil && p.walking.Load() }

// run lists the tree when nothing runs inside or has run for late. It reports whether all is listed: not if it gets no turn, or if
// another call lists the tree already. What can only follow in an idle time then goes on in the background.
func (p *prefetcher) run(late time.Duration) bool {
	if !p.running.CompareAndSwap(false, true) {
		return false
	}
	defer p.running.Store(false)
	defer p.hurried.Store(false)
	defer time.AfterFunc(late, p.hurry).Stop()
	w := prefetch.New(rootfs.TreeDir(p.params), p.maxNames)
	if !p.walk(w, p.hurried.Load) {
		return false
	}
	if linked := w.Linked(); linked != nil && p.links.CompareAndSwap(false, true) {
		go func() { // ends with the sandbox, at which something may still run inside
			defer p.links.Store(false)
			p.walk(linked, func() bool { return false })
		}()
	}
	return true
}

// walk has w do its work while nothing runs inside, or while hurried returns true. It reports whether all is done: not if it gets no
// turn.
func (p *prefetcher) walk(w *prefetch.Walker, hurried func() bool) bool {
	inTheWay := func() bool {
		busy, _ := p.relay.usage()
		return busy && !hurried()
	}
	for !w.Done() {
		p.relay.awaitIdle(hurried)
		if p.cancelled.Load() {
			return false
		}
		done, ok := prefetch.Lock(p.params.Config.UID)
		if !ok {
			return false
		}
		p.walking.Store(true) // one warmer at a time: that of the turn
		w.Run(inTheWay)
		p.walking.Store(false)
		done()
	}
	return true
}

// maxNames returns how many names are listed at most.
func (p *prefetcher) maxNames() int {
	const perName = 8192 // of the sandbox's memory: twice what the tree server has for each (fusefs.Options.Memory)
	most := prefetchLimit
	if p.large.Load() {
		most = walkPrefetchLimit
	}
	if m := p.params.Config.Resources.Memory; m > 0 {
		most = min(most, int(m/perName))
	}
	return most
}

// hurry has run not wait for what runs inside, until it ends.
func (p *prefetcher) hurry() {
	p.hurried.Store(true)
	p.relay.recheck()
}
