package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
	"wolffia/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// How long things of our own may take.
const (
	startLimit    = 10 * time.Second // until a new shell answers
	restoreLimit  = 5 * time.Second
	rcLimit       = 5 * time.Second
	snapshotLimit = 2 * time.Second        // for nobody; for a terminal as long as a restore
	quietBefore   = 200 * time.Millisecond // without a command, before a snapshot is taken
)

// A Session is a shell and what is asked of it, in order. All fields below
// info belong to whoever has the turn.
type Session struct {
	m    *Manager
	name string
	path string // the shell's program
	d    dialect
	env  []string
	rc   bool
	dir  *dir
	poll *poller
	mark proc.Mark // of all that its shells start

	terminals proc.Mark // of all that its terminals' shells start
	startFile string    // what the last of those has read first; empty: there was none

	turns turns
	mu    sync.Mutex
	info  wire.SessionInfo // as of the last change; guarded by mu

	shell *shellProcess // nil: the shell has ended
	queue []*Call
	busy  bool // something runs, or is being prepared
	cur   *run
	pipes [2]pipe // standard output and error of its commands

	rows, cols uint16
	cwd        string
	home       string // the directory to start in
	commands   int64
	restarts   int
	lastStatus int
	term       *terminal // nil: nobody has attached yet
	snap       *snapshot
	snapAt     int64   // commands when snap was taken
	why        purpose // of the next restore
	restored   string  // for the next result
	cling      bool    // since snap was taken a text has set a trap that clings
	guarded    bool    // the guard's trap may have put one of the user's aside
	restore    []byte  // what the next shell has to run first to undo a call's Dir and Env
	before     map[int]uint64
	groups     map[int]bool
	seen       map[int]bool // orphans that are not ours
	lastPID    string
	after      func()      // looks for jobs, when the result is out
	detached   []*detached // oldest first
	dying      *Call       // the destroy that ends the session
	leaving    bool        // PID 1 is about to end
	dead       bool
	released   bool // what it had is given back

	alarms [alarmCount]time.Time
	armed  time.Time
	timer  *time.Timer
}

// What a session waits for besides descriptors.
type alarm int

const (
	alarmLimit  alarm = iota // the command's time is over
	alarmLadder              // the next step against a command
	alarmLost                // look whether the report was lost
	alarmDrain               // held pipes
	alarmHold                // output that came before the text was read
	alarmIdle                // take a snapshot
	alarmCount
)

// post has f run when it is its turn; it never waits for others. Once the
// session is dead, f finds it so.
func (s *Session) post(f func()) {
	s.turns.do(func() { s.work(f) })
}

// later is post for what takes long, or for a caller that must not do it.
func (s *Session) later(f func()) {
	s.turns.leave(func() { s.work(f) })
}

// wait is post, and returns when f has been run.
func (s *Session) wait(f func()) {
	done := make(chan struct{})
	s.post(func() {
		defer close(done)
		f()
	})
	<-done
}

// settled waits until what was asked of the session before has been done, and
// jobs that a command has left are known.
func (s *Session) settled() { s.wait(func() {}) }

// work is one turn.
func (s *Session) work(f func()) {
	s.contain(f)
	if !s.dead {
		s.arm()
		return
	}
	if s.released {
		return
	}
	s.released = true
	s.timer.Stop()
	if s.poll != nil {
		s.poll.close()
	}
}

// contain does what is to be done. A mistake of ours in it ends this session,
// and not the sandbox, whose PID 1 this is.
func (s *Session) contain(f func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		fmt.Fprintf(os.Stderr, "session %q: %v\n%s", s.name, v, debug.Stack())
		calls := s.queue
		if s.cur != nil && s.cur.call != nil {
			calls = append(calls, s.cur.call)
		}
		if s.dying != nil {
			calls = append(calls, s.dying)
		}
		s.queue = nil
		for _, c := range calls {
			c.fail(wire.ClassUnavailable, fmt.Sprintf("session %q has failed", s.name))
		}
		s.end()
	}()
	f()
}

func (s *Session) set(a alarm, after time.Duration) { s.alarms[a] = time.Now().Add(after) }
func (s *Session) clear(a alarm)                    { s.alarms[a] = time.Time{} }

// arm sets the timer to the next alarm, unless it will ring before it anyway:
// so a command that is over at once costs no timer.
func (s *Session) arm() {
	var first time.Time
	for _, t := range s.alarms {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() || !s.armed.IsZero() && !first.Before(s.armed) {
		return
	}
	s.armed = first
	s.timer.Reset(time.Until(first))
}

func (s *Session) onTime(now time.Time) {
	s.armed = time.Time{}
	if s.dead {
		return
	}
	for a := range s.alarms {
		if t := s.alarms[a]; t.IsZero() || t.After(now) {
			continue
		}
		s.alarms[a] = time.Time{}
		switch alarm(a) {
		case alarmLimit:
			if s.cur != nil && s.cur.rep == nil && !s.cur.timedOut {
				s.cur.timedOut = true
				s.interrupt()
			}
		case alarmLadder:
			s.escalate()
		case alarmLost:
			s.checkLost()
		case alarmDrain:
			s.drain()
		case alarmHold:
			s.release()
		case alarmIdle:
			s.takeSnapshot()
		}
	}
}

// publish tells other goroutines how the session is.
func (s *Session) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := &s.info
	state, commands, waiting := i.State, i.Commands, i.Waiting
	i.State, i.PID = wire.StateIdle, 0
	if s.shell == nil {
		i.State = wire.StateEnded
	} else {
		i.PID = s.shell.pid
	}
	if s.cur != nil && s.cur.call != nil {
		i.State = wire.StateRunning
	}
	i.Cwd = wire.Path(s.cwd)
	i.Commands, i.Waiting, i.Restarts, i.Restored = s.commands, len(s.queue), s.restarts, s.restored
	if i.State != state || i.Commands != commands || i.Waiting != waiting {
		i.UsedMS = time.Now().UnixMilli() // what the session does for itself shows in none of them
	}
}

func (s *Session) describe() wire.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// refuses ends a call of a session that is being ended, and reports whether it did.
func (s *Session) refuses(c *Call) bool {
	if s.dead || s.dying != nil {
		c.fail(wire.ClassNotFound, fmt.Sprintf("session %q is gone", s.name))
		return true
	}
	return false
}

// submit queues a call, or refuses it.
func (s *Session) submit(c *Call) {
	switch {
	case s.refuses(c):
	case c.killed:
		c.giveUp()
	case c.req.Session.NoWait && (len(s.queue) > 0 || s.cur != nil && s.cur.call != nil):
		c.fail(wire.ClassConflict, fmt.Sprintf("session %q is busy", s.name))
	default:
		s.queue = append(s.queue, c)
		s.next()
		s.publish()
	}
}

// next begins what is first in the queue, if nothing else runs.
func (s *Session) next() {
	if s.busy || s.dead {
		return
	}
	if len(s.queue) == 0 {
		if s.shell != nil && s.snapAt != s.commands {
			s.set(alarmIdle, quietBefore)
		}
		s.publish()
		return
	}
	s.clear(alarmIdle)
	c := s.queue[0]
	s.queue = s.queue[1:]
	s.busy = true
	s.withShell(func(err error) {
		if err != nil {
			c.fail(wire.ClassUnavailable, fmt.Sprintf("session %q: no shell: %v", s.name, err))
			s.idle()
			return
		}
		s.undoCall(func() { s.perform(c) })
	})
}

// idle says that what was busy is over.
func (s *Session) idle() {
	s.busy = false
	if s.dying != nil {
		s.destroyNow()
		return
	}
	if s.leaving {
		s.hangUp()
		return
	}
	s.next()
}

// withShell goes on when there is a shell.
func (s *Session) withShell(then func(error)) {
	if s.shell != nil {
		then(nil)
		return
	}
	if s.commands > 0 {
		s.restarts++
	}
	s.boot(then)
}

// boot starts a shell, waits for its first word, and gives it what its
// predecessor has left.
func (s *Session) boot(then func(error)) {
	dir := s.cwd
	if proc.CheckDir(dir) != nil {
		if dir = s.home; proc.CheckDir(dir) != nil {
			dir = "/"
		}
	}
	s.before, s.groups, s.lastPID = nil, nil, ""
	in, err := s.startShell(dir, func(in *shellProcess, ws syscall.WaitStatus) {
		s.later(func() { s.onChange(in, ws) }) // the reaper is not to wait
	})
	if err != nil {
		then(err)
		return
	}
	s.shell = in
	for _, fd := range []int{in.sock, in.state, in.tty} {
		s.poll.add(fd, unix.EPOLLIN)
	}
	for _, line := range s.d.start(in.path(in.names.exit), in.path(in.names.guard)) {
		s.send(line)
	}
	s.begin(&run{probe: true, limit: startLimit, done: func(r *run) {
		if r.rep == nil {
			s.kill()
			then(errors.New("it does not answer"))
			return
		}
		in.ready = true
		in.copies = in.terminals()
		s.dir.unlink(in.names.lines) // it has it open
		s.bring(then)
	}})
}

// bring gives a new shell its state: the user's start files for the first,
// else the snapshot.
func (s *Session) bring(then func(error)) {
	own := func(text string, limit time.Duration, after func(*run)) {
		s.begin(&run{text: []byte(text), limit: limit, done: func(r *run) {
			if r.rep != nil {
				after(r)
				return
			}
			// It did not survive that: without it, then.
			s.kill()
			s.rc, s.snap = false, nil
			if s.restored != "" {
				s.restored = wire.RestoredNone
			}
			s.boot(then)
		}})
	}
	switch {
	case s.snap != nil && s.commands > 0:
		own(string(s.snap.restore(filepath.Dir(s.dir.path), s.why)), restoreLimit, func(r *run) {
			s.locate(r.rep.pwd)
			if s.cwd != s.snap.cwd() && s.restored == wire.RestoredFull {
				s.restored = wire.RestoredPartial // the directory is gone, or too deep to go to at once
			}
			then(nil)
		})
	case s.rc && !s.d.posix:
		own("[[ ! -r ~/.bashrc ]] || \\. ~/.bashrc\n", rcLimit, func(*run) { then(nil) })
	default:
		then(nil)
	}
}

// kill ends the shell without waiting for anything.
func (s *Session) kill() {
	if s.shell == nil || s.shell.gone {
		return
	}
	_ = unix.Kill(s.shell.pid, unix.SIGKILL)
	s.lose()
}

// lose forgets the shell.
func (s *Session) lose() {
	in := s.shell
	if in == nil {
		return
	}
	for _, fd := range []int{in.sock, in.state, in.tty} {
		s.poll.remove(fd)
	}
	if in.watched {
		s.poll.remove(in.script)
	}
	in.gone = true
	in.close()
	if in.place == s.dir.path {
		for _, name := range []string{in.names.exit, in.names.state, in.names.guard, in.names.aside, in.names.lines} {
			s.dir.unlink(name)
		}
	}
	s.shell = nil
}

// nonce is a word that nobody can guess.
func (s *Session) nonce() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// onEvents looks at what is ready: output first, so that it is read before
// the report that says that it is complete.
func (s *Session) onEvents() {
	if s.dead {
		return
	}
	var buf [8]unix.EpollEvent
	events := s.poll.events(buf[:])
	sock := false
	for _, ev := range events {
		switch fd := int(ev.Fd); {
		case s.shell != nil && fd == s.shell.sock:
			sock = true
		case s.shell != nil && fd == s.shell.state:
			s.readState()
		case s.shell != nil && s.shell.watched && fd == s.shell.script:
			s.flush()
		case s.shell != nil && fd == s.shell.tty:
			s.onTerminal()
		case s.cur != nil && s.cur.in.fd == fd && s.cur.in.open:
			s.feed()
		default:
			s.onPipe(fd)
		}
	}
	if sock && s.shell != nil {
		s.readReports()
	}
}

// readReports reads what the shell says.
func (s *Session) readReports() {
	for s.shell != nil {
		packet, err := s.shell.receive()
		if len(packet) == 0 {
			if err == nil { // its end is closed: its exit says the rest
				s.poll.remove(s.shell.sock)
			}
			return // or there is nothing more
		}
		r := s.cur
		if r == nil || r.rep != nil || r.nonce == "" {
			continue
		}
		if rep, ok := r.reports.add(packet, r.nonce); ok {
			s.believe(rep)
		} else if rep, ok := r.second.add(packet, r.again); ok && r.again != "" {
			r.unknown = true
			s.believe(rep)
		}
	}
}

// believe takes a report for true if the shell is at its prompt. While it executes
// a command, it is the command that has read the word and says so.
func (s *Session) believe(rep report) {
	if s.shell.atPrompt() {
		s.onReport(rep)
	}
}

// readState reads what an exiting shell says of its state.
func (s *Session) readState() {
	var buf [32 << 10]byte
	for {
		n, err := unix.Read(s.shell.state, buf[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		_, _ = s.shell.said.Write(buf[:n]) // never fails
	}
}

// onTerminal reads what was printed on the session's terminal. It belongs to
// the command that runs on it; otherwise nobody asked for it.
func (s *Session) onTerminal() {
	if s.cur != nil && s.cur.st.tty && s.cur.rep == nil {
		s.onStream(s.cur.outs[0])
		return
	}
	s.drainTerminal()
}

func (s *Session) drainTerminal() {
	var buf [32 << 10]byte
	for range 64 {
		n, err := unix.Read(s.shell.tty, buf[:])
		if n <= 0 && err != unix.EINTR {
			if err != unix.EAGAIN {
				s.poll.remove(s.shell.tty) // everybody has closed it
			}
			return
		}
	}
}

// flushTerminal drops what was printed on the terminal and not asked for, and what
// was typed and not read: it was meant for another command.
func (s *Session) flushTerminal() {
	s.drainTerminal()
	if t, err := unix.IoctlGetTermios(s.shell.tty, unix.TCGETS); err == nil {
		s.shell.setTerminal(t)
	}
}

// setTerminal sets the terminal's modes, and drops what was typed and not read.
// What the terminal itself has is dropped with its modes, since they are those of
// the shell's side (TCSETSF in ioctl_tty(2)); what is still on the way to it is
// the output of the master side (TCOFLUSH).
func (in *shellProcess) setTerminal(t *unix.Termios) {
	_ = unix.IoctlSetInt(in.tty, unix.TCFLSH, unix.TCOFLUSH)
	_ = unix.IoctlSetTermios(in.tty, unix.TCSETSF, t)
}

// onChange hears that the shell has stopped or is gone.
func (s *Session) onChange(in *shellProcess, ws syscall.WaitStatus) {
	if ws.Stopped() {
		if !in.gone && !in.frozen {
			_ = unix.Kill(in.pid, unix.SIGCONT)
		}
		return
	}
	if s.shell != in {
		return // we have killed it
	}
	s.readReports()
	if s.shell != in {
		return // its last word was that it is of no use
	}
	s.readState()
	s.keepExitState(in, ws)
	r := s.cur
	if r != nil && r.st.tty {
		r.outs[0].pump(true)
		r.outs[0].over = true
	}
	s.lose()
	if r == nil {
		s.restoredNext()
		s.publish()
		return
	}
	s.clear(alarmLadder)
	s.clear(alarmLost)
	if s.unbegun(r) {
		s.restoredNext()
		s.anew(r)
		return
	}
	r.ended = true
	if r.rep == nil {
		r.ws = ws
		s.settleRun()
	}
	s.drain()
}

// unbegun reports whether a caller's text was never read by the shell that is gone,
// so that another shell can have it.
func (s *Session) unbegun(r *run) bool {
	return r.call != nil && r.rep == nil && r.attempt < maxAttempts && r.stage == stageNone && !r.killed &&
		s.dir.probe && !s.wasRead(r)
}

// keepExitState takes over the state that the shell has left, and decides how
// it is restored.
func (s *Session) keepExitState(in *shellProcess, ws syscall.WaitStatus) {
	switch {
	case s.cur != nil && s.cur.stage >= stageReplace:
		s.why = afterKill
	case !ws.Exited() || ws.ExitStatus() != 0:
		s.why = afterError
	default:
		s.why = afterExit
	}
	said, dropped := in.said.Result()
	if snap, ok := parseSnapshot(s.d, said); ok && dropped == 0 && in.ready {
		s.snap, s.snapAt = &snap, -1
		if s.cwd = snap.cwd(); s.cwd == "" {
			s.cwd = s.home
		}
	}
}

// restoredNext decides what the next result says about the state.
func (s *Session) restoredNext() {
	switch {
	case s.snap == nil:
		s.restored = wire.RestoredNone
	case s.snapAt == -1 && !s.d.posix && s.why != afterKill:
		s.restored = wire.RestoredFull
	default:
		s.restored = wire.RestoredPartial
	}
}
