package fusefs

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/gate"
	"wolffia/internal/git/gitguard"
	"wolffia/internal/sys/proc"
	"wolffia/perm"
)

// Ask has accesses wait for a person instead of refusing them.
type Ask struct {
	// Write is for changes of what is Read, Reveal for the content of what is View.
	Write, Reveal bool

	// Limit is how long an access waits at most.
	Limit time.Duration

	// Question passes on what would be a denial. Requests call it, without a lock; it must not
	// touch the mount. The answer comes on the channel, which has room for it; nil: the access is
	// refused at once. withdraw says that no answer is needed any more.
	Question func(d Denial) (answer <-chan Answer, withdraw func())
}

// An Answer is a person's. The zero Answer refuses.
type Answer struct {
	Allowed bool
	By      string // who, for the log
}

// The outcomes of a question: Denial.Asked.
const (
	AskedAllowed   = "allowed"
	AskedRefused   = "refused"
	AskedWithdrawn = "withdrawn" // the process has ended, or was interrupted
)

const (
	maxHeld   = 64  // requests that wait at once; more are refused
	maxGrants = 256 // more end the oldest

	// nameLimit is how long a name waits that is to be made or removed: the kernel has its
	// directory locked, and other processes wait for that.
	nameLimit = 10 * time.Second

	// signalPause is the time between two looks at whether a held process is to end. The kernel
	// sends FUSE_INTERRUPT for each signal, also for those that Go's programs send to themselves,
	// and once for a request: so a look is needed anyway, and is enough.
	signalPause = 100 * time.Millisecond
)

// asks are the requests that wait for answers, and what the answers have allowed. A nil asks asks
// nobody.
type asks struct {
	Ask
	park  func(wait func()) // device.Park
	ended <-chan struct{}   // closed with the device
	held  atomic.Int32

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when rules have changed
	grants  []grant       // oldest first
	granted atomic.Int32  // len(grants)
}

// A task is one process as long as it lives. The zero task is none.
type task struct {
	id    int
	start uint64 // in ticks since boot
}

// A grant allows one process once what needs the level need of a path, while the rules give the
// level from.
//
// What it has read stays in the kernel's cache, where another process of the sandbox could read it
// that has the file open already, or maps it: the processes of a sandbox are one domain.
type grant struct {
	task
	path       string
	from, need perm.Level
}

func newAsks(o *Ask) *asks {
	if o == nil || o.Question == nil || !o.Write && !o.Reveal {
		return nil
	}
	return &asks{Ask: *o, changed: make(chan struct{})}
}

// writes reports whether a asks about changes.
func (a *asks) writes() bool { return a != nil && a.Write }

// about reports whether a asks about d.
func (a *asks) about(d *Denial) bool {
	switch {
	case a == nil || d.PID == 0 || d.Op == gate.Name(gate.OpLinkFrom): // a link would outlive the process that may
		return false
	case d.Level == perm.Read && d.Need == perm.Write:
		return a.Write
	}
	return d.Level == perm.View && d.Need == perm.Read && a.Reveal
}

// rulesChanged lets held requests be judged again.
func (a *asks) rulesChanged() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
}

// grant adds a grant.
func (a *asks) grant(g grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.grants) >= maxGrants {
		a.dropEnded()
	}
	a.grants = append(a.grants[max(0, len(a.grants)-maxGrants+1):], g)
	a.granted.Store(int32(len(a.grants)))
}

// dropEnded drops the grants of processes that have ended. a.mu is held.
func (a *asks) dropEnded() {
	kept := a.grants[:0]
	for _, g := range a.grants {
		if p, err := proc.Read(g.id); err == nil && p.Start == g.start {
			kept = append(kept, g)
		}
	}
	a.grants = kept
}

// level returns what the process of c may do with a path that has the level l: more than l with a
// grant. path is called only if there are grants.
func (a *asks) level(c *fuse.InHeader, path func() string, l perm.Level) perm.Level {
	if a == nil || a.granted.Load() == 0 || l >= perm.Write {
		return l
	}
	at, caller, known := path(), task{}, false
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.grants {
		if g.path != at || g.from != l || g.need <= l {
			continue
		}
		if !known {
			caller, known = taskOf(c.Pid), true
		}
		// Without a process the kernel writes what one has changed through a memory mapping.
		switch o := gate.Op(c.Opcode); {
		case g.task == caller && caller != task{}:
			return g.need
		case inherits[min(o, gate.OpUnknown)] && caller.descends(g.task), c.Pid == 0 && o == gate.OpWrite:
			return g.need
		}
	}
	return l
}

// inherits are the operations on a descriptor. A process may do them that has inherited one: a
// shell opens files for the programs that it starts.
var inherits = [gate.Ops]bool{
	gate.OpRead: true, gate.OpWrite: true, gate.OpFsync: true, gate.OpFallocate: true, gate.OpLseek: true, gate.OpCopyFrom: true,
}

// maxAncestors bounds the processes that descends looks at.
const maxAncestors = 16

// descends reports whether t is below the process of, which lives.
func (t task) descends(of task) bool {
	id := t.id
	for range maxAncestors {
		p, err := proc.Read(id)
		if err != nil || id <= 1 {
			return false
		}
		if p.PID == of.id {
			return p.Start == of.start
		}
		id = p.Parent
	}
	return false
}

// taskOf returns the process of a thread; none if it has ended.
func taskOf(tid uint32) task {
	words, err := proc.Status(int(tid), "Tgid")
	if tid == 0 || err != nil || len(words) != 1 {
		return task{}
	}
	id, err := strconv.Atoi(words[0])
	if err != nil {
		return task{}
	}
	p, err := proc.Read(id)
	if err != nil {
		return task{}
	}
	return task{id, p.Start}
}

// ends reports whether a thread has ended, or has a signal that it must get: one that ends it, or
// one by which a person interrupts a program. The kernel makes signals that end a process SIGKILL.
func ends(tid uint32) bool {
	s, ok := proc.PendingOf(int(tid))
	for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		ok = ok && !s.Has(sig)
	}
	return !ok
}

// denialOf returns what the gate says of o on something of the level l, without its path.
func (g *gatekeeper) denialOf(o gate.Op, c *fuse.InHeader, l perm.Level) Denial {
	return Denial{
		Op: gate.Name(o), Level: l, Need: gate.Need(o), PID: c.Pid, UID: c.Uid,
		Errno: gate.Check(o, l), Rules: g.levels.rules,
	}
}

// nameDenial returns what the gate is about to refuse of e and a question may allow; ok is false if
// there is no such thing.
func (g *gatekeeper) nameDenial(o gate.Op, c *fuse.InHeader, e *entry, isDir bool) (d Denial, ok bool) {
	if g.asks == nil {
		return d, false
	}
	l := g.levels.of(e, isDir)
	d = g.denialOf(o, c, l)
	d.Name = true
	if d.Errno == 0 || !g.asks.about(&d) {
		return d, false
	}
	d.Path = g.table.path(e.dir, e.name)
	return d, g.asks.level(c, func() string { return d.Path }, l) < d.Need
}

// askName holds the request c while a person is asked about o on the name e, if the gate would
// refuse that. 0: the gate has to be asked.
func (g *gatekeeper) askName(o gate.Op, c *fuse.InHeader, e *entry, isDir bool) syscall.Errno {
	d, ok := g.nameDenial(o, c, e, isDir)
	if !ok {
		return 0
	}
	return g.hold(o, d, func() bool {
		*e = newEntry(e.dir, e.name) // by the rules of then
		return gate.Check(o, g.levels.of(e, isDir)) == 0
	})
}

// askNode is askName for an object.
func (g *gatekeeper) askNode(o gate.Op, c *fuse.InHeader, n *node) syscall.Errno {
	if g.asks == nil {
		return 0
	}
	l := n.getLevel()
	d := g.denialOf(o, c, l)
	if d.Errno == 0 || !g.asks.about(&d) || g.levelFor(c, n) >= d.Need {
		return 0
	}
	d.Path = g.table.path(n, "")
	return g.hold(o, d, func() bool { return n.getLevel() >= d.Need })
}

// levelFor returns the level of n for the process of c.
func (g *gatekeeper) levelFor(c *fuse.InHeader, n *node) perm.Level {
	return g.asks.level(c, func() string { return g.table.path(n, "") }, n.getLevel())
}

// hold asks about d, and holds its request until that is answered, the rules allow it, or its
// process is to end. allowed judges by the rules. 0: the gate, which has to be asked again, may
// allow it. Other errors are reported.
//
// The caller holds the locks of a request for the operation o (responder.answer) and no other.
// They are free meanwhile: a held request is not under way, so that rules can change, and reviews
// begin.
func (g *gatekeeper) hold(o gate.Op, d Denial, allowed func() bool) syscall.Errno {
	a := g.asks
	report := func(outcome, by string, errno syscall.Errno) syscall.Errno {
		if d.Asked, d.By, d.Errno = outcome, by, errno; g.report != nil {
			g.report(d)
		}
		return errno
	}
	who := taskOf(d.PID)
	guarded := d.Need == perm.Write && slices.ContainsFunc(strings.Split(d.Path, "/"), gitguard.Spelled)
	if a.held.Add(1) > maxHeld || who == (task{}) || guarded {
		a.held.Add(-1)
		return 0
	}
	defer a.held.Add(-1)
	unlocked := func(f func()) {
		g.levels.rulesMu.RUnlock()
		if changing[o] {
			g.changeMu.RUnlock()
		}
		defer func() {
			if changing[o] {
				g.changeMu.RLock()
			}
			g.levels.rulesMu.RLock()
		}()
		f()
	}
	var answer <-chan Answer
	var withdraw func()
	unlocked(func() { answer, withdraw = a.Question(d) })
	if answer == nil {
		return 0
	}
	defer withdraw()
	limit := a.Limit
	if d.Name {
		limit = min(limit, nameLimit)
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	look := time.NewTicker(signalPause)
	defer look.Stop()
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if allowed() {
			return report(AskedAllowed, "a rule", 0)
		}
		var got Answer
		errno := syscall.Errno(0)
		again := false
		unlocked(func() {
			a.park(func() {
				for {
					select {
					case got = <-answer:
					case <-changed:
						again = true
					case <-look.C:
						if !ends(d.PID) {
							continue
						}
						errno = syscall.EINTR
					case <-over.C:
					case <-a.ended:
						errno = syscall.ENODEV
					}
					return
				}
			})
		})
		switch {
		case again:
		case errno != 0:
			return report(AskedWithdrawn, "", errno)
		case allowed():
			return report(AskedAllowed, got.By, 0)
		case got.Allowed:
			a.grant(grant{who, d.Path, d.Level, d.Need})
			return report(AskedAllowed, got.By, 0)
		default:
			return report(AskedRefused, got.By, syscall.EACCES)
		}
	}
}
