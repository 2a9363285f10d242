package shim

import (
	"math"
	"sync/atomic"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/shim/prefetch"
)

// How long a prefetcher waits for what runs inside.
const (
	// a process that runs longer is a server, a terminal, or a build: a fifth of a second is
	// little
	prefetchLate = 2 * time.Second
	prefetchIdle = time.Duration(math.MaxInt64)
)

// How many entries of a codebase are loaded into the kernel's dentry cache in advance. Each takes
// 1 to 2 kB of memory, most of it in the kernel. A program that walks through the tree asks for
// all of them anyway.
const prefetchLimit, walkPrefetchLimit = 25_000, 500_000

// prefetchAfter is when prefetching begins, so that it takes no processor from the command that
// most callers start at once.
const prefetchAfter = 5 * time.Millisecond

// A prefetcher loads the tree of a sandbox into the kernel's caches, by a [prefetch.Walker], while
// nothing runs inside: what runs needs the processors and the tree server itself. It also runs
// beside a process that has run for long, and at once when a process looks up name after name
// (fusefs.Options.OnSequentialLookup), which is slow without it. Its methods are safe for
// concurrent use; those of a nil prefetcher do nothing.
type prefetcher struct {
	params *boot.Params
	relay  *relay

	timer   atomic.Pointer[time.Timer] // of schedule
	running atomic.Bool                // run is called
	hurried atomic.Bool                // run does not wait for what runs inside
	large   atomic.Bool                // walkPrefetchLimit applies
	// the pass over linked files waits for an idle time, or is done
	links     atomic.Bool
	walking   atomic.Bool // a walker runs
	cancelled atomic.Bool // no walk begins any more
}

// schedule has the tree prefetched soon, when nothing runs inside or has run for late.
func (p *prefetcher) schedule(late time.Duration) {
	if p != nil {
		p.timer.Store(time.AfterFunc(prefetchAfter, func() { p.run(late) }))
	}
}

// runNow prefetches the whole tree at once: for a process that walks through it, or in a pooled
// sandbox. It reports whether all of it is prefetched.
func (p *prefetcher) runNow() bool {
	if p == nil {
		return false
	}
	p.large.Store(true)
	p.hurry() // the call of run that waits, or else the next one
	return p.run(prefetchIdle)
}

// claimPrefetchLimit is how long a pooled sandbox prefetches its tree before it is published. A
// start may take three times as long.
const claimPrefetchLimit = 20 * time.Second

// runBeforeClaim prefetches the tree, and reports whether all of it is prefetched. After
// claimPrefetchLimit it returns false, and the work continues in the background.
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

// cancel lets no more walk begin.
func (p *prefetcher) cancel() {
	if p == nil {
		return
	}
	p.cancelled.Store(true)
	if timer := p.timer.Load(); timer != nil {
		timer.Stop()
	}
}

// isWalking reports whether a walker runs.
func (p *prefetcher) isWalking() bool { return p != nil && p.walking.Load() }

// run prefetches the tree when nothing runs inside or has run for late. It reports whether all of
// it is prefetched: not if another sandbox has the lock for too long, or if another call of run
// has not returned. The pass over linked files follows in the background, in an idle time.
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

// walk has w work while nothing runs inside, or while hurried returns true. It reports whether w
// is done: not if another sandbox has the lock for too long.
func (p *prefetcher) walk(w *prefetch.Walker, hurried func() bool) bool {
	blocked := func() bool {
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
		p.walking.Store(true) // one walker at a time: the lock's owner
		w.Run(blocked)
		p.walking.Store(false)
		done()
	}
	return true
}

// maxNames returns how many names are prefetched at most.
func (p *prefetcher) maxNames() int {
	// of the sandbox's memory: twice what the tree server has for each (fusefs.Options.Memory)
	const perName = 8192
	most := prefetchLimit
	if p.large.Load() {
		most = walkPrefetchLimit
	}
	if m := p.params.Config.Resources.Memory; m > 0 {
		most = min(most, int(m/perName))
	}
	return most
}

// hurry has run not wait for what runs inside, until it returns.
func (p *prefetcher) hurry() {
	p.hurried.Store(true)
	p.relay.recheck()
}
