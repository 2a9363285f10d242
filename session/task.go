package session

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
	"wolffia/wire"
)

// maxShells is how many shells are started for one task.
const maxShells = 4

// A task is what a session does for a call, or a snapshot that no call asked for.
type task struct {
	kind     taskKind
	call     *Call  // nil: none asked for it
	set      bool   // the call's Dir and Env are set in the shell
	begun    bool   // it was counted, and the caller told
	retried  bool   // it has begun again in another shell
	shells   int    // that were started for it
	cwd      string // the session's directory before it
	restored string // for its result
	job      *namedJob
}

// handle advances the state machine by an event, until a run is in the shell or the session has
// nothing to do. r is the run that has ended, or nil. err is the reason why a run could not begin.
func (s *Session) handle(ev event, r *run, err error) {
	for {
		effect := effects[s.state][ev]
		if effect == ignored {
			return
		}
		s.apply(effect, r, err)
		s.pick()
		s.state = next(s.facts())
		if r, err = s.enter(); err == nil && r == nil {
			return
		}
		if ev = broken; err == nil {
			ev = done
		}
	}
}

// work has the machine look for something to do.
func (s *Session) work() { s.handle(work, nil, nil) }

// pick takes the first call of the queue, if the session has no task. It ends a task whose caller
// has canceled it. A session that is only being created ends with that, unless other calls wait
// for it: its caller may not know its name.
func (s *Session) pick() {
	if t := s.task; t != nil && t.call != nil && t.call.killed {
		creates := t.kind == createTask && t.call.created == nil && len(s.queue) == 0
		if creates || t.kind == execTask || t.kind == jobTask {
			t.call.giveUp()
			s.task, s.ending = nil, s.ending || creates
		}
	}
	if s.shuttingDown {
		s.failPending()
	}
	if s.task != nil || len(s.queue) == 0 || s.ending {
		return
	}
	c := s.queue[0]
	s.queue = s.queue[1:]
	if c.req.Session.Op == wire.SessionCreate {
		s.collide(c)
		s.pick()
		return
	}
	s.task = &task{kind: execTask, call: c}
	if c.req.Session.Op == wire.SessionJobStart {
		s.task.kind = jobTask
	}
}

func (s *Session) facts() facts {
	f := facts{ending: s.ending, shuttingDown: s.shuttingDown, shell: s.shell != nil, revert: len(s.saved.revert) > 0}
	if f.shell {
		f.stateful, f.trapped = s.shell.stateful, s.shell.trapped
	}
	if t := s.task; t != nil {
		f.task = t.kind
		f.override = (t.kind == execTask || t.kind == jobTask) && !t.set && (len(t.call.req.Dir)+len(t.call.req.Env) > 0 || t.call.req.TTY)
		f.revert = f.revert && !t.set
	}
	return f
}

// enter begins what the state is about: a run, whose end is the next event. A state
// that is over at once returns the run that it was, or an error.
func (s *Session) enter() (*run, error) {
	switch t := s.task; s.state {
	case idle:
		if s.shell != nil && !s.saved.current() {
			s.alarms.set(alarmSave, quietBefore)
		}
		s.publish()
	case starting:
		t.set = false // in the new shell
		if t.shells++; t.shells > maxShells {
			return nil, fmt.Errorf("the shell ended %d times before it could be used", maxShells)
		}
		return nil, s.boot()
	case restoring:
		return nil, s.begin(s.saved.restoration(filepath.Dir(s.ends.dir.path)))
	case created:
		s.saved.restored, s.task = "", nil
		s.publish()
		if t.call.created != nil {
			t.call.exit(wire.ExitStatus{}) // continues
		} else {
			s.m.answer(t.call, s.m.describe(s))
		}
		return noRun(), nil
	case untrapping:
		const limit = 1 << 20 // of a trap, in bytes
		s.shell.trapped = false
		text := s.ends.dir.readAndRemove(s.shell.names.aside, limit)
		if len(text) == 0 || len(text) == limit {
			return noRun(), nil
		}
		return nil, s.begin(&run{text: text, limit: restoreLimit})
	case reverting:
		text := s.saved.revert
		s.saved.revert = nil
		return nil, s.begin(&run{text: text, limit: restoreLimit})
	case overriding:
		t.cwd = s.saved.cwd
		var attended []string
		if t.call.req.TTY {
			attended = dialect.Unattended(s.spec.env)
		}
		script, err := s.spec.d.Override(t.call.req.Dir, t.call.req.Env, attended)
		if err != nil {
			return nil, classError{wire.ClassInvalid, err}
		}
		return nil, s.begin(&run{text: []byte(script), limit: restoreLimit})
	case executing:
		return nil, s.begin(s.command())
	case launching:
		r, err := s.launchJob()
		if err != nil {
			return nil, err
		}
		return nil, s.begin(r)
	case saving:
		if s.shell == nil {
			return noRun(), nil
		}
		limit := snapshotLimit
		if t.call != nil {
			limit = restoreLimit
		}
		return nil, s.begin(&run{text: []byte(s.spec.d.SnapshotScript()), limit: limit})
	case shuttingDown:
		if s.shell != nil {
			_ = unix.Kill(s.shell.pid, unix.SIGHUP) // its terminal was closed, which ends the shell
		}
	case terminated:
		s.end()
	}
	return nil, nil
}

// noRun is the run of a state that is over at once.
func noRun() *run { return &run{probe: true} }

// A classError is an error of a class; others are of ClassUnavailable.
type classError struct {
	class string
	error
}

// apply does what an event means for the task.
func (s *Session) apply(e effect, r *run, err error) {
	t, in := s.task, s.state
	if r != nil && e != reply && e != retry {
		s.tidy(r) // before the task's result: a job is known by then
	}
	switch e {
	case advance:
		switch {
		case in == starting && s.shell != nil:
			s.shell.ready(s.saved.restores() || s.spec.rc && !s.spec.d.POSIX)
		case in == restoring && s.shell != nil:
			s.shell.stateful = false
			s.saved.locateRestored(s.shell, r)
		}
	case dropState:
		s.kill()
		s.spec.rc, s.saved.snap = false, nil
		if s.saved.restored != "" {
			s.saved.restored = wire.RestoredNone
		}
	case verify:
		s.saved.cwd = t.cwd
		err = s.checkOverride(t.call.req.Dir, r)
		if t.set = err == nil; !t.set {
			s.failTask(err)
		}
	case retry:
		t.retried, t.set, t.restored = true, false, ""
		t.discardJob()
	case reply:
		s.task = nil
		s.reply(t, r)
		s.tidy(r) // when the result is out
	case answer:
		s.task = nil
		s.m.answer(t.call, t.job.describe(s.procs, r))
	case save:
		s.task = nil
		s.saved.saveSnapshot(r)
		if t.call != nil {
			s.startTerminal(t.call)
		}
	case fail:
		if in == starting {
			s.kill()
		}
		if err = reason(in, err); in == starting {
			what := "a new shell"
			if t.kind == createTask {
				what = s.spec.path
			}
			err = fmt.Errorf("session %q: start %s: %w", s.name, what, err)
		}
		s.failTask(err)
	}
}

// reason is the error of a task that fails in a state. err is the reason why its run could not
// begin; nil: it began.
func reason(in state, err error) error {
	switch {
	case err != nil:
		return err
	case in == starting:
		return fmt.Errorf("the shell ended, or did not report within %v", startLimit)
	case in == overriding:
		return errors.New("the shell did not set the call's environment and working directory")
	}
	return errors.New("the shell did not start it")
}

// failTask ends the task without a result.
func (s *Session) failTask(err error) {
	t := s.task
	s.task = nil
	if s.saved.restored == "" {
		s.saved.restored = t.restored
	}
	t.discardJob()
	if t.kind == createTask {
		s.ending = true
	}
	if t.call == nil {
		return
	}
	if s.dying != nil {
		err = classError{wire.ClassNotFound, s.goneError()}
	}
	class := wire.ClassUnavailable
	if of, is := errors.AsType[classError](err); is {
		class = of.class
	}
	t.call.fail(class, err.Error())
}

// checkOverride returns why a call's Dir and Env are not set, or nil.
func (s *Session) checkOverride(dir string, r *run) error {
	var whole bool
	s.saved.revert, whole = r.captured(wire.Stdout)
	switch {
	case !whole:
		s.replace() // nothing else would put the variables back
		s.saved.revert = nil
		return fmt.Errorf("what the call's environment replaces is larger than %d bytes, and cannot be put back: the shell was replaced; use smaller variables", maxCapture)
	case !bytes.HasSuffix(s.saved.revert, []byte(dialect.Overridden)):
		complaint, _ := r.captured(wire.Stderr)
		return classError{wire.ClassInvalid, fmt.Errorf(
			"the call's environment and working directory %q cannot be set: %s", dir, strings.TrimSpace(string(complaint)))}
	}
	return nil
}

// captured returns the output of a run of the session's own. whole says that it is complete.
func (r *run) captured(stream wire.Type) (b []byte, whole bool) {
	for _, st := range r.outs {
		if st.typ == stream && st.capture != nil {
			kept, dropped := st.capture.Result()
			return kept, dropped == 0
		}
	}
	return nil, true
}

// begin counts the caller's task as a command.
func (t *task) begin(saved *checkpoint) {
	if !t.begun {
		t.begun = true
		saved.commands++
	}
}

// command is the run of the caller's text.
func (s *Session) command() *run {
	t := s.task
	c := t.call
	if c.req.TTY && c.req.Rows > 0 && c.req.Cols > 0 {
		s.resize(c.req.Rows, c.req.Cols)
	}
	r := &run{
		call: c, text: []byte(c.req.Args[0]),
		st:         dialect.Streams{Stdin: c.req.Stdin && !c.req.TTY, Merge: c.req.Merge, TTY: c.req.TTY},
		limit:      milliseconds(c.req.TimeoutMS),
		keepStatus: s.saved.lastStatus != 0 && !s.spec.d.POSIX,
	}
	if (r.limit > 0 || c.waited) && !t.begun { // the host counts too; else it does not wait for that frame
		c.started()
	}
	t.begin(&s.saved)
	t.cwd, t.restored, s.saved.restored = s.saved.cwd, s.saved.restored, ""
	s.saved.mayIgnoreSignals = s.saved.mayIgnoreSignals || dialect.SetsTrap(r.text)
	return r
}

// milliseconds is a time limit of a request.
func milliseconds(ms uint64) time.Duration {
	return time.Duration(min(ms, 1<<40)) * time.Millisecond
}

// reply sends the result.
func (s *Session) reply(t *task, r *run) {
	if s.saved.revert != nil && t.call.req.Dir != "" && proc.CheckDir(t.cwd) == nil {
		s.saved.cwd = t.cwd // the call's directory was for the call; but the shell stays there if it cannot go back
	}
	var st wire.ExitStatus
	known := true
	switch {
	case r.rep != nil:
		st.Code = r.rep.Status
	case r.stage >= stageReplace:
		known = false
		st = wire.StatusOf(syscall.WaitStatus(unix.SIGKILL)) // though it may have died of another signal
	default:
		st = wire.StatusOf(r.ws)
	}
	if r.aborted { // as what ends of PID 1's SIGTERM
		st = wire.ExitStatus{Code: 128 + int(unix.SIGTERM)}
	}
	st.Cwd, st.DurationMS = wire.Path(s.saved.cwd), r.alarms.clock.Now().Sub(r.begun).Milliseconds()
	st.SessionEnded, st.Restored, st.StatusLost = r.exited || s.shuttingDown, t.restored, r.unknown && !r.exited
	st.WantedTerminal = r.wantedTerminal
	s.saved.lastStatus = st.Code
	if st.StatusLost {
		st.Code = 125
	}
	if r.timedOut {
		if known && !st.StatusLost {
			code := st.Code
			st.ShellCode = &code
		}
		st.Code, st.TimedOut = 124, true
	}
	if r.exited {
		s.saved.lastStatus = 0
	}
	// Exit is the end of both streams too: no frames of their own for that.
	s.publish()
	if r.remains != nil {
		r.remains.deliver(s.m, t.call, st)
		return
	}
	t.call.exit(st)
}

// tidy puts in order what a run has left: what runs in the background is a job, and
// the pipes are ready for the next run.
func (s *Session) tidy(r *run) {
	var named *namedJob
	if s.state == launching {
		named = s.task.job
	}
	s.procs.leftover(r, named)
	s.ends.renewAll()
}

// boot starts a shell, and makes it report. Its state and the task come later.
func (s *Session) boot() error {
	if s.saved.commands > 0 {
		s.restarts++
	}
	dir := s.saved.cwd
	if proc.CheckDir(dir) != nil {
		if dir = s.spec.home; proc.CheckDir(dir) != nil {
			dir = "/"
		}
	}
	shell, err := startShell(&s.m.host, &s.spec, s.ends, s.procs, dir, func(p *shellProcess, ws syscall.WaitStatus) {
		s.turns.later(func() { s.onChange(p, ws) }) // the reaper must not wait
	})
	if err != nil {
		return err
	}
	s.shell = shell
	shell.send(s.firstLines(shell)...)
	return s.begin(&run{probe: true, limit: startLimit})
}
