package session

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
	"wolffia/wire"
)

// When a snapshot was taken that is not of an idle moment.
const (
	atExit     = -1 // the last shell has left it when it ended
	beforeExit = -2 // one before the last has
)

// A checkpoint is the known state of a session's shells, for the next shell. It belongs to the
// session's turn.
type checkpoint struct {
	spec             *shellSpec
	cwd              string
	commands         int64
	lastStatus       int
	snap             *dialect.Snapshot
	snapAt           int64           // commands when snap was taken; or atExit, or beforeExit
	purpose          dialect.Purpose // of the next restore
	restored         string          // for the next result
	mayIgnoreSignals bool            // since snap was taken a text has set a trap: see ignoresSignals
	revert           []byte          // the text that restores the Dir and Env that a call has replaced
}

// current reports whether there is no newer state than that of the snapshot.
func (c *checkpoint) current() bool { return c.snapAt == c.commands }

// restores reports whether a new shell gets the snapshot.
func (c *checkpoint) restores() bool { return c.snap != nil && c.commands > 0 }

// exited stores the state that a shell has left, and decides how it is restored.
func (c *checkpoint) exited(p *shellProcess, ws syscall.WaitStatus, killed bool) {
	switch {
	case killed:
		c.purpose = dialect.AfterKill
	case !ws.Exited() || ws.ExitStatus() != 0:
		c.purpose = dialect.AfterError
	default:
		c.purpose = dialect.AfterExit
	}
	printed, dropped := p.said.Result()
	if c.snapAt == atExit {
		c.snapAt = beforeExit
	}
	if snap, ok := dialect.ParseSnapshot(p.d, printed); ok && dropped == 0 && p.answers {
		c.snap, c.snapAt = &snap, atExit
		if c.cwd = snap.Cwd(); c.cwd == "" {
			c.cwd = c.spec.home
		}
	}
}

// report decides what the next result reports about the state.
func (c *checkpoint) report() {
	switch {
	case c.snap == nil:
		c.restored = wire.RestoredNone
	case c.snapAt == atExit && !c.spec.d.POSIX && c.purpose != dialect.AfterKill:
		c.restored = wire.RestoredFull
	default:
		c.restored = wire.RestoredPartial
	}
}

// saveSnapshot parses and keeps the state that a shell has printed.
func (c *checkpoint) saveSnapshot(r *run) {
	if r == nil || r.rep == nil || r.probe {
		return
	}
	printed, whole := r.captured(wire.Stdout)
	c.snapAt = c.commands // also without a state: the session asks again only after a change
	if snap, ok := dialect.ParseSnapshot(c.spec.d, printed); ok && whole {
		c.snap, c.mayIgnoreSignals = &snap, false
	}
}

// ignoresSignals reports whether the shell may continue with the text in spite of signals. bash
// does so if a signal interrupts a program that a trap on ERR, RETURN or DEBUG has started:
// bash forgets the interrupt when the trap is over, and has dropped the guard's signal
// before (interrupt_state in _run_trap_internal, trap.c of 5.2). The session freezes such a
// shell: it stays stopped until it is replaced.
func (c *checkpoint) ignoresSignals(text []byte) bool {
	return !c.spec.d.POSIX && (c.mayIgnoreSignals || dialect.SetsTrap(text) || c.snap != nil && c.snap.SetsTrap())
}

// restoration is the run that gives a new shell its state: the snapshot of its
// predecessor, or the user's start files. base is
// the directory of all sessions' directories.
func (c *checkpoint) restoration(base string) *run {
	if c.restores() {
		return &run{text: c.snap.Restore(base, c.purpose), limit: restoreLimit}
	}
	return &run{text: []byte("[[ ! -r ~/.bashrc ]] || \\. ~/.bashrc\n"), limit: rcLimit}
}

// locate finds out where the shell is: its PWD if that is true, else what the kernel
// has. Of a path that is too long for the kernel, PWD is all that is known.
func (c *checkpoint) locate(p *shellProcess, pwd string) {
	link := p.cwd
	var real, said unix.Stat_t
	if unix.Stat(link, &real) != nil {
		return
	}
	if strings.HasPrefix(pwd, "/") && statPath(pwd, &said) == nil && proc.FileOf(&real) == proc.FileOf(&said) {
		c.cwd = pwd
		return
	}
	name, err := os.Readlink(link)
	switch {
	case err != nil:
		c.cwd = pwd
	case real.Nlink == 0:
		c.cwd = strings.TrimSuffix(name, " (deleted)")
	default:
		c.cwd = name
	}
}

// locateRestored finds out where a shell is that was restored.
func (c *checkpoint) locateRestored(p *shellProcess, r *run) {
	if !c.restores() {
		return
	}
	c.locate(p, r.rep.PWD)
	if c.cwd != c.snap.Cwd() && c.restored == wire.RestoredFull {
		c.restored = wire.RestoredPartial // the directory was removed, or is too deep for one chdir
	}
}

// statPath is stat(2) for paths of any length.
func statPath(path string, st *unix.Stat_t) error {
	const piece = unix.PathMax - 1 // its size has room for a NUL
	at := unix.AT_FDCWD
	defer func() { closeFD(&at) }()
	for len(path) > piece {
		end := strings.LastIndexByte(path[:piece], '/') + 1
		if end == 0 {
			return unix.ENAMETOOLONG // of one component
		}
		fd, err := unix.Openat(at, path[:end], unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		closeFD(&at)
		at, path = fd, strings.TrimLeft(path[end:], "/")
	}
	return unix.Fstatat(at, path, st, unix.AT_EMPTY_PATH)
}
