package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
	"wolffia/internal/git/gitguard"
	"wolffia/perm"
)

// A Denial is one refusal, for an audit log.
type Denial struct {
	Op     string        // for example "write"
	Path   string        // last known, relative to the root; bytes chosen by the sandbox: quote before printing
	Level  perm.Level    // what the rules give
	Need   perm.Level    // what the operation needs, a rename also less; Level if the kind of object is refused
	PID    uint32        // of the caller, in the mount's pid namespace; 0 if it has none there
	UID    uint32        // of the caller, in the mount's user namespace
	Errno  syscall.Errno // returned to the caller
	Reason string        // what git on the host would do with it; "": the level explains the refusal
	Name   bool          // Path is a name that was to be made or removed
	Asked  string        // the outcome of its question, AskedAllowed among them; "": nobody was asked
	By     string        // who answered; may be ""
	Rules  Rules         `json:"-"` // the rules that decided
}

// A gatekeeper asks the gate about nodes and names, and reports what it denies.
type gatekeeper struct {
	*names
	report func(Denial) // Options.Denied
	asks   *asks        // nil: nobody is asked
}

// allow returns the gate's errno for o on n, 0 if it allows that, and reports a denial.
func (g *gatekeeper) allow(o gate.Op, c *fuse.InHeader, n *node) syscall.Errno {
	l := n.getLevel()
	e := gate.Check(o, l)
	if e == 0 || o != gate.OpLinkFrom && gate.Check(o, g.levelFor(c, n)) == 0 {
		return 0
	}
	return g.deny(o, c, n, "", l, e, "")
}

// allowed returns the node called id if the gate allows o on it, and reports a denial.
func (g *gatekeeper) allowed(o gate.Op, c *fuse.InHeader, id uint64) (*node, syscall.Errno) {
	n := g.table.get(id)
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, g.allow(o, c, n)
}

// allowName returns the gate's errno for o on the name e, 0 if it allows that, and reports a
// denial.
func (g *gatekeeper) allowName(o gate.Op, c *fuse.InHeader, e *entry, isDir bool) syscall.Errno {
	l := g.levels.of(e, isDir)
	errno := gate.Check(o, l)
	if errno == 0 || gate.Check(o, g.asks.level(c, func() string { return g.table.path(e.dir, e.name) }, l)) == 0 {
		return 0
	}
	reason := ""
	if g.git != nil && gitguard.Spelled(e.name) && !e.dir.private() {
		reason = spellsGit
	}
	return g.deny(o, c, e.dir, e.name, l, errno, reason)
}

// deny reports one refusal and returns e. name is empty if n itself was refused, else it
// is an entry of n. reason is Denial.Reason.
func (g *gatekeeper) deny(o gate.Op, c *fuse.InHeader, n *node, name string, l perm.Level, e syscall.Errno, reason string) syscall.Errno {
	if g.report != nil && !gate.Refuses(o) {
		at := g.table.path(n, name)
		g.reportFor(c, Denial{Op: gate.Name(o), Path: at, Level: l, Need: gate.Need(o), Errno: e, Reason: reason})
	}
	return e
}

// reportFor reports d, of the request c and the rules of now.
func (g *gatekeeper) reportFor(c *fuse.InHeader, d Denial) {
	if d.PID, d.UID, d.Rules = c.Pid, c.Uid, g.levels.rules; g.report != nil {
		g.report(d)
	}
}

// The kernel itself refuses what the presented modes do not allow, and does not report that.
// But before, it asks for the attributes once more (fuse_permission in fs/fuse/dir.c), and
// while it waits for them /proc shows the caller's system call.

// askKernel reports that the kernel is about to refuse the caller's system call because of n's
// mode, if it is, or holds the request while a person is asked about it. It is called before a
// reply with the attributes of n.
func (g *gatekeeper) askKernel(c *fuse.InHeader, n *node) syscall.Errno {
	d, ok := g.kernelDenial(c, n)
	if !ok {
		return 0
	}
	if g.asks.about(&d) {
		errno := g.hold(gate.OpGetattr, d, func() bool { return n.getLevel() >= d.Need })
		switch {
		case errno == syscall.EACCES: // reported; the kernel refuses it
		case errno != 0:
			return errno
		case g.levelFor(c, n) >= d.Need && retries(d.Op):
			// The kernel ignores attributes that are older than those of another answer, as these
			// would be after a wait (fuse_change_attributes in fs/fuse/inode.c). It tries once
			// more now.
			return syscall.ESTALE
		case g.levelFor(c, n) < d.Need && g.report != nil: // nobody was asked
			g.report(d)
		}
		return g.allow(gate.OpGetattr, c, n) // by the rules of now
	}
	if g.report != nil {
		g.report(d)
	}
	return 0
}

// retries reports whether the kernel tries a system call of an intent once more after ESTALE.
func retries(op string) bool { return op != "connect" && op != "watch" }

// kernelDenial returns what the kernel is about to refuse; ok is false if that is nothing, or
// unknown.
func (g *gatekeeper) kernelDenial(c *fuse.InHeader, n *node) (d Denial, ok bool) {
	l := n.getLevel()
	if n.isDir() {
		inside, ok := g.levels.constant(n.getState())
		if !ok || inside == perm.Read && g.asks.writes() {
			return d, false // the mode allows everything
		}
		l = inside
	}
	if g.report == nil && g.asks == nil || l >= perm.Write || c.Pid == 0 {
		return d, false
	}
	a, ok := gate.IntentOf(c.Pid)
	if a.Make && n.isDir() {
		a = gate.Intent{Op: "create", Need: perm.Write, Name: true}
	}
	if !ok || a.Name != n.isDir() || a.Need <= l || !a.Name && a.Need <= g.levelFor(c, n) {
		return d, false
	}
	return Denial{
		Op: a.Op, Path: g.table.path(n, ""), Level: l, Need: a.Need,
		PID: c.Pid, UID: c.Uid, Errno: syscall.EACCES, Rules: g.levels.rules,
	}, true
}

// allowedDir returns the directory that c is about if the gate allows o on it.
func (g *gatekeeper) allowedDir(o gate.Op, c *fuse.InHeader) (*node, syscall.Errno) {
	dir, errno := g.dir(c.NodeId)
	if errno == 0 {
		errno = g.allow(o, c, dir)
	}
	return dir, errno
}

// judgeDir is judgeMoved for obj, which is the entry e, at a in the directory d, and asks the gate
// again if the level is lower by that. What is no directory of an upper layer has been judged.
func (g *gatekeeper) judgeDir(
	o gate.Op, in *fuse.InHeader, e *entry, d openDir, a backing.At, obj *backing.Object,
) syscall.Errno {
	if !d.upper || a.FD != d.fd || !obj.IsDir() {
		return 0
	}
	fd, half, path, errno := g.OpenUpper(a)
	if errno != 0 {
		return errno
	}
	unix.Close(fd)
	if half != cow.Moved {
		return 0
	}
	before := g.levels.of(e, true)
	if g.levels.judgeMoved(e, path); g.levels.of(e, true) == before {
		return 0
	}
	return g.allowName(o, in, e, true)
}
