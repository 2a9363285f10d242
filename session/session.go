package session

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// How long the session's own runs may take.
const (
	startLimit    = 10 * time.Second // until a new shell answers
	restoreLimit  = 5 * time.Second
	rcLimit       = 5 * time.Second
	snapshotLimit = 2 * time.Second        // without a caller; for a terminal as long as a restore
	quietBefore   = 200 * time.Millisecond // without a command, before a snapshot is taken
)

// A Session is a shell and its tasks, in order; see the machine in machine.go. The fields
// below info belong to the turn: see executor.
type Session struct {
	m     *Manager
	name  string
	spec  shellSpec
	ends  *endpoints
	procs *processes

	turns executor
	mu    sync.Mutex
	info  wire.SessionInfo // as of the last change; guarded by mu

	state state
	task  *task // nil: none
	queue []*Call
	ops   operations
	shell *shellProcess // nil: the shell has ended
	cur   *run          // the run in the shell, or nil
	saved checkpoint
	terms terminals

	restarts      int
	deferredInput string // a line for the shell of a prestarted session, sent when the session is claimed; else empty

	dying        *Call // the call that ends the session
	ending       bool  // it is to terminate
	shuttingDown bool  // PID 1 is about to end
	released     bool  // its descriptors are closed

	alarms alarms
}

// turn runs f. f checks whether the session has terminated.
func (s *Session) turn(f func()) {
	s.contain(f)
	if s.state != terminated {
		s.alarms.arm()
		return
	}
	if s.released {
		return
	}
	s.released = true
	s.alarms.timer.Stop()
	if s.ends != nil {
		s.ends.poll.close()
	}
}

// contain calls f. A panic ends this session, and not the sandbox, whose PID 1 this is.
func (s *Session) contain(f func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		fmt.Fprintf(os.Stderr, "session %q: %v\n%s", s.name, v, debug.Stack())
		if s.dying != nil {
			s.queue = append(s.queue, s.dying)
		}
		if s.task != nil && s.task.call != nil {
			s.queue = append(s.queue, s.task.call)
		}
		s.dying, s.task = nil, nil
		s.failQueue(wire.ClassUnavailable, fmt.Errorf("session %q has failed", s.name))
		s.state = terminated
		s.end()
	}()
	f()
}

func (s *Session) onTime(now time.Time) {
	s.alarms.armed = time.Time{}
	if s.state == terminated {
		return
	}
	for a := range alarmSave + 1 {
		switch {
		case !s.alarms.ring(a, now):
		case a < alarmSave:
			s.dispatch(a)
		case s.state == idle && s.shell != nil && !s.saved.current():
			s.task = &task{kind: snapshotTask}
			s.work()
		}
	}
}

// publish has other goroutines see how the session is.
func (s *Session) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := &s.info
	state, commands, waiting := i.State, i.Commands, i.Waiting
	i.State, i.PID = wire.StateIdle, s.procs.root
	if s.shell == nil {
		i.State = wire.StateEnded
	}
	if s.cur != nil && s.cur.call != nil {
		i.State = wire.StateRunning
	}
	i.Cwd = wire.Path(s.saved.cwd)
	i.Commands, i.Waiting, i.Restarts, i.Restored = s.saved.commands, len(s.queue), s.restarts, s.saved.restored
	if i.State != state || i.Commands != commands || i.Waiting != waiting {
		i.UsedMS = time.Now().UnixMilli() // the session's own work changes none of them
	}
}

func (s *Session) goneError() error { return fmt.Errorf("session %q has ended", s.name) }

// refuses ends a call of a session that is being ended, and reports whether it did.
func (s *Session) refuses(c *Call) bool {
	if s.state == terminated || s.ending {
		c.fail(wire.ClassNotFound, s.goneError().Error())
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
		if len(s.queue) > 0 || s.cur != nil && s.cur.call != nil {
			c.waits()
		}
		s.queue = append(s.queue, c)
		s.work()
		s.publish()
	}
}

// destroy ends the session as soon as nothing runs in its shell.
func (s *Session) destroy(c *Call) {
	if s.refuses(c) {
		return
	}
	s.dying, s.ending = c, true
	s.m.forget(s)
	s.failQueue(wire.ClassNotFound, s.goneError())
	if s.cur == nil {
		s.work()
		return
	}
	s.cur.killAll() // the command that runs is no job; the shell's exit ends the run, and that the session
	s.cur.stage = stageReplace
	if s.cur.call != nil {
		s.dispatch(callerGone)
	}
}

func (s *Session) failQueue(class string, err error) {
	for _, q := range s.queue {
		q.fail(class, err.Error())
	}
	s.queue = nil
}

// end kills all that the session has started, and answers the calls that wait.
// Precondition: nothing runs in the shell.
func (s *Session) end() {
	s.m.forget(s)
	s.failQueue(wire.ClassNotFound, s.goneError())
	if s.task != nil {
		s.failTask(s.goneError())
	}
	(&proc.Tree{Root: s.procs.root, Shell: true, Mark: s.procs.mark}).Kill(deathLimit)
	for _, j := range s.m.jobsOf(s.name) {
		j.signal(unix.SIGKILL)
	}
	s.kill()
	s.terms.end()
	s.ends.giveUp()
	s.ends.dir.remove()
	if s.dying != nil {
		s.dying.exit(wire.ExitStatus{SessionEnded: true})
	}
}

// kill ends the shell without waiting for anything.
func (s *Session) kill() {
	if s.shell == nil {
		return
	}
	_ = unix.Kill(s.shell.pid, unix.SIGKILL)
	s.shell.release()
	s.shell = nil
}

// onEvents handles the descriptors that are ready: output first, so that it is read
// before the report that it is complete.
func (s *Session) onEvents() {
	if s.state == terminated {
		return
	}
	var buf [8]unix.EpollEvent
	events := s.ends.poll.events(buf[:])
	sock := false
	for _, ev := range events {
		switch fd := int(ev.Fd); {
		case s.shell != nil && fd == s.shell.sock:
			sock = true
		case s.shell != nil && fd == s.shell.state:
			s.shell.readState()
		case s.shell != nil && s.shell.watched && fd == s.shell.script:
			s.shell.flush()
		case s.shell != nil && fd == s.shell.tty:
			s.onTerminal()
		case s.cur != nil && s.cur.in.fd == fd && s.cur.in.open:
			s.cur.feed()
		default:
			if st := s.cur.output(fd); st == nil {
				s.ends.discardUnowned(fd)
			} else if !st.over {
				s.react(output, st)
			}
		}
	}
	if sock {
		s.readReport() // of more packets there is another event
	}
}

// readReport reads one packet from the shell. It returns false if no packet is queued. A report
// counts if the shell is at its prompt: while the shell executes a command, the command has read
// the nonce.
func (s *Session) readReport() bool {
	if s.shell == nil {
		return false
	}
	packet, err := s.shell.receive()
	if len(packet) == 0 {
		if err == nil { // the shell has closed its end: its exit has the details
			s.ends.poll.remove(s.shell.sock)
		}
		return false // or no packet is queued
	}
	r := s.cur
	if r == nil || r.phase == over || r.nonce == "" {
		return true
	}
	rep, own := r.reports.Add(packet, r.nonce)
	again := false
	if !own && r.again != "" {
		rep, again = r.second.Add(packet, r.again)
	}
	if (own || again) && s.shell.atPrompt() {
		r.rep, r.unknown = &rep, r.unknown || again
		s.dispatch(reported)
	}
	return true
}

// onTerminal reads the output of the session's terminal. It belongs to the command that runs on
// the terminal; otherwise it is dropped.
func (s *Session) onTerminal() {
	if s.cur != nil && s.cur.st.TTY && s.cur.phase != over {
		s.react(output, s.cur.outs[0])
		return
	}
	s.shell.drainTerminal()
}

// onChange handles a shell that has stopped or has ended.
func (s *Session) onChange(p *shellProcess, ws syscall.WaitStatus) {
	if ws.Stopped() {
		if !p.ended && !p.frozen {
			_ = unix.Kill(p.pid, unix.SIGCONT)
		}
		return
	}
	if s.shell != p {
		return // the session has killed it
	}
	for s.readReport() {
	}
	if s.shell != p {
		return // its last report was that it is of no use
	}
	s.shell.readState()
	r := s.cur
	s.saved.exited(p, ws, r != nil && r.stage >= stageReplace)
	if r != nil && r.st.TTY {
		r.outs[0].pump(true)
		r.outs[0].over = true
	}
	p.release()
	s.shell = nil
	if r == nil {
		s.saved.report()
		s.publish()
		return
	}
	r.exited, r.ws = true, ws
	s.dispatch(exited)
}
