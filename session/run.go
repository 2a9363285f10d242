package session

import (
	"crypto/rand"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
	"wolffia/wire"
)

// A phase is how far a run is.
type phase int

const (
	unreadText phase = iota // the shell may not have come to the text: output may be another's
	heldOutput              // the same, and there is output
	readText                // the shell has read the text
	over                    // the shell has reported or has ended: the rest of the output is read
	phaseCount
)

// A runEvent is an event during a run. The first ones are alarms.
type runEvent int

const (
	timeUp      runEvent = iota // the command's time is over
	escalation                  // the next step against it
	reportCheck                 // time to check whether the report was lost
	rest                        // there may be more output, or credit for it, or it was quiet
	release                     // output has waited long enough for the text to be read
	output                      // there is output
	reported                    // the shell has reported
	exited                      // the shell has ended
	callerGone                  // the caller has disconnected, or loses the command
	runEventCount
)

// A reaction is what the session does about a runEvent.
type reaction int

const (
	nothing reaction = iota
	hold
	pass
	resume
	end
	interrupt
	escalate
	checkReport
	drain
)

// reactions is the table of reactions, by the run's phase.
var reactions = [phaseCount][runEventCount]reaction{
	//           timeUp, escalation, reportCheck, rest, release, output, reported, exited, callerGone
	unreadText: {interrupt, escalate, checkReport, resume, nothing, hold, end, end, interrupt},
	heldOutput: {interrupt, escalate, checkReport, nothing, resume, hold, end, end, interrupt},
	readText:   {interrupt, escalate, checkReport, resume, nothing, pass, end, end, interrupt},
	over:       {rest: drain, output: drain, exited: drain, callerGone: drain},
}

// A run is one text in the shell: a caller's, or one of the session's own. Its phase
// and the runEvent decide the reaction.
type run struct {
	shell  *shellProcess
	alarms *alarms
	saved  *checkpoint

	call  *Call // nil: the session's own
	text  []byte
	st    dialect.Streams
	limit time.Duration // 0: none
	probe bool          // no text at all, only a report
	// keepStatus has the text see the status of the one before.
	keepStatus bool

	phase    phase
	nonce    string
	begun    time.Time
	outs     []*stream
	held     []*stream // those that another process holds when the run is over
	in       feeding
	tries    int // shells' readings that were asked for, see maxTries
	reports  dialect.Reports
	again    string          // the nonce of a report that was asked for once more
	second   dialect.Reports // those with that nonce: their status is not the command's
	rep      *dialect.Report // nil: none
	exited   bool            // the shell has ended
	ws       syscall.WaitStatus
	timedOut bool
	killed   bool
	aborted  bool // PID 1 is about to end: see abortScript
	stage    stage
	looks    int  // at a shell that does not answer, after SIGKILL
	idle     int  // how many of these found the shell neither busy nor at its prompt
	atPrompt int  // how often in a row the shell was found at its prompt
	asked    int  // how often a lost report was asked for
	unknown  bool // the status is not the command's
	target   int  // the process group that got its signal
	ticks    int  // how often it was looked at while it ran
	keyLooks int  // how often in a row the command was seen to wait for keys
	// wantedTerminal reports that the command was ended because it waited for keys.
	wantedTerminal bool
	preExec        bool // it was a copy of the shell that had not executed yet
	// remains are the output that its reader has not read yet; may be nil
	remains *remains
}

// A feeding is a command's standard input.
type feeding struct {
	name    string // of its FIFO
	fd      int
	open    bool
	only    bool // not open to read any more: a command that has closed its end shows
	watched bool
}

// maxTries is how often a text that was not read is sent once more.
const maxTries = 2

// begin makes the files and descriptors that a run needs, and sends the run to the shell. If it
// can make nothing in the directory, it uses another directory. After an error the shell is
// unchanged. Precondition: the session has a shell, and no other run.
func (s *Session) begin(r *run) error {
	r.shell, r.alarms, r.saved = s.shell, &s.alarms, &s.saved
	r.begun = r.alarms.clock.Now()
	r.in.fd = -1
	if s.task != nil && s.task.retried && s.state >= overriding {
		r.tries = maxTries
	}
	s.cur = r
	err := s.try(r)
	if err != nil {
		s.drop(r)
	}
	return err
}

// try is begin for a run that may have been tried before.
func (s *Session) try(r *run) error {
	err := r.open()
	if err != nil && s.ends.move() == nil {
		r.closeStreams()
		err = r.open()
	}
	if err != nil {
		return err
	}
	r.send()
	if r.call != nil && r.tries == 0 {
		s.publish()
	}
	return nil
}

// drop ends a run that has not come to its text.
func (s *Session) drop(r *run) {
	s.cur = nil
	s.alarms.clear()
	r.closeStreams()
}

// open makes the run's file and streams.
func (r *run) open() error {
	if r.probe {
		return nil
	}
	ends := r.shell.ends
	if len(r.text) == 0 {
		r.text = []byte("\n") // gVisor does not note a read of an empty file
	}
	if err := ends.dir.writeText(r.text); err != nil {
		return err
	}
	if r.keepStatus {
		if err := ends.dir.write(dialect.StatusName, []byte("return "+itoa(r.saved.lastStatus)+"\n")); err != nil {
			return err
		}
	}
	if r.st.TTY {
		// What was printed by no command, and typed and not read, was meant for another.
		r.shell.drainTerminal()
		r.shell.setTerminal(r.shell.attended)
		r.outs = []*stream{newStream(wire.Stdout, nil, r.shell.tty, ends.poll, r.call, r.alarms.clock)}
		fd, err := unix.FcntlInt(uintptr(r.shell.tty), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return err
		}
		r.in.fd, r.in.open, r.in.only = fd, true, true
		return nil
	}
	if r.call != nil { // an earlier command may have changed them
		_ = unix.IoctlSetTermios(r.shell.tty, unix.TCSETS, &r.shell.quiet)
	}
	for i := range ends.pipes {
		if i == 1 && r.st.Merge {
			break
		}
		p := &ends.pipes[i]
		if err := ends.prepare(p); err != nil {
			return err
		}
		r.outs = append(r.outs, newStream(outputs[i], p, p.fd, ends.poll, r.call, r.alarms.clock))
	}
	if r.st.Stdin {
		name := token()
		fd, err := ends.dir.fifo(name, unix.O_RDWR) // or the shell would wait for a writer
		if err != nil {
			return err
		}
		r.in.name, r.in.fd, r.in.open = name, fd, true
	}
	return nil
}

// send sends the packets.
func (r *run) send() {
	r.nonce = rand.Text()
	r.reports, r.again = dialect.Reports{}, ""
	if !r.probe {
		status := ""
		if r.keepStatus {
			status = dialect.StatusName
		}
		ends := r.shell.ends
		names := dialect.FIFOs{In: r.in.name, Out: ends.pipes[0].name, Err: ends.pipes[1].name}
		r.shell.send(r.shell.d.Run(ends.dir.path, r.st, names, status))
	}
	r.shell.send(r.shell.d.Report(r.nonce))
	r.alarms.set(reportCheck, lostTick)
	if r.limit > 0 {
		r.alarms.due[timeUp] = r.begun.Add(r.limit)
	}
	if r.in.open {
		r.feed()
	}
}

// dispatch passes an event to the run that is in the shell, if there is a run.
func (s *Session) dispatch(h runEvent) {
	if s.cur != nil {
		s.react(h, nil)
	}
}

// react does what the table reactions has for the event. st is the stream that has output.
func (s *Session) react(h runEvent, st *stream) {
	r := s.cur
	if h == callerGone { // no credit for its output will come any more
		r.killed, r.call.killed = true, true
		for _, st := range r.outs {
			st.rewatch()
		}
	}
	switch re := reactions[r.phase][h]; re {
	case hold, pass:
		if re == hold && st.capture == nil && !r.wasRead() {
			// It is not the command's: it is left in the pipe until the text is read.
			st.unwatch()
			if r.phase != heldOutput {
				r.phase = heldOutput
				s.alarms.set(release, holdLimit)
			}
			return
		}
		if _, blocked := st.pump(false); st.eof || blocked {
			st.unwatch()
		}
	case resume:
		if h == release {
			r.phase = readText
		}
		for _, st := range r.outs {
			st.rewatch()
		}
	case interrupt:
		r.timedOut = r.timedOut || h == timeUp
		r.interrupt()
	case escalate:
		r.escalate()
	case checkReport:
		if r.checkLost() {
			s.replaceFor(r)
		}
	case end:
		s.endOf(r)
	case drain:
		s.drain()
	}
}

// holdLimit is how long output waits for the text to be read.
const holdLimit = time.Second

// wasRead reports whether the shell has come to the text: then it has opened
// the streams.
func (r *run) wasRead() bool {
	switch {
	case r.phase >= readText:
		return true
	case !r.probe && !r.shell.ends.dir.wasRead():
		return false
	case r.phase == unreadText:
		r.phase = readText
	}
	return true
}

// endOf ends a run whose shell has reported or has ended. A text that was not read
// is sent again after a repair, and then given to another shell.
func (s *Session) endOf(r *run) {
	s.alarms.clear()
	if r.exited {
		if r.unbegun() {
			s.drop(r)
			s.saved.report()
			s.handle(unread, nil, nil)
			return
		}
	} else {
		if !r.wasRead() && !r.timedOut && !r.killed && !s.shuttingDown && r.tries < maxTries {
			s.again(r)
			return
		}
		if !r.probe && s.ends.dir.wasReplaced(r.text) {
			r.unknown = true // its status is that of another text
		}
		if r.call != nil || r.probe {
			s.saved.locate(s.shell, r.rep.PWD)
		}
		if r.timedOut || r.killed {
			r.shell.atOnce(func() { r.sweep(unix.SIGKILL) })
		}
	}
	r.phase = over
	now := s.alarms.clock.Now()
	for _, st := range r.outs {
		st.drain.Begin(now, proc.Grace)
		if st.pipe != nil {
			closeFD(&st.pipe.writer)
		}
	}
	s.drain()
}

// output is the run's stream with that descriptor; nil: none.
func (r *run) output(fd int) *stream {
	if r != nil {
		for _, st := range r.outs {
			if st.fd == fd {
				return st
			}
		}
	}
	return nil
}

// unbegun reports whether the shell that has ended never read the text, so that another shell can
// run it.
func (r *run) unbegun() bool {
	return r.tries < maxTries && r.stage == stageNone && !r.killed && !r.wasRead()
}

// again sends a text that was not read once more: to the same shell after a repair, then
// to another one.
func (s *Session) again(r *run) {
	r.tries++
	r.rep, r.phase = nil, unreadText
	r.closeStreams()
	s.ends.giveUp()
	s.ends.dir.text.drop()
	if !s.ends.dir.intact() {
		_ = s.ends.move() // if it fails, so does the next attempt
	}
	if r.tries >= maxTries {
		s.replaceFor(r)
		return
	}
	s.shell.send(r.shell.d.Repair()...)
	if err := s.try(r); err != nil {
		s.drop(r)
		s.handle(broken, nil, err)
	}
}

// replaceFor kills the shell, which has not read the text, for one that does.
func (s *Session) replaceFor(r *run) {
	s.replace()
	s.drop(r)
	s.handle(unread, nil, nil)
}

// replace kills the shell for one that works.
func (s *Session) replace() {
	s.saved.purpose = dialect.AfterKill
	s.kill()
	s.saved.report()
}

// drain reads the rest of the output. It ends the run when none is left, or when the run's reader
// has taken nothing for proc.Grace.
func (s *Session) drain() {
	r := s.cur
	now := s.alarms.clock.Now()
	complete, stalled := true, false
	var next time.Time // zero: when there is credit
	for _, st := range r.outs {
		if st.over {
			continue
		}
		blocked, at := st.rest(now)
		if st.over {
			continue
		}
		complete = false
		if !blocked {
			st.rewatch()
		} else {
			st.unwatch()
			if at = st.drain.Limit(); !at.After(now) {
				stalled = true
				continue
			}
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if complete || stalled && r.retain(s.m.reserve) {
		s.finish(r)
		return
	}
	for _, st := range r.outs {
		if st.over {
			st.unwatch() // it hangs up for as long as the others take
		}
	}
	s.alarms.due[rest] = next
}

// finish ends a run whose output is complete.
func (s *Session) finish(r *run) {
	s.cur = nil
	s.alarms.clear()
	if r.exited {
		s.saved.report()
	}
	if r.st.TTY && s.shell != nil {
		s.shell.setTerminal(&s.shell.quiet)
	}
	r.closeStreams()
	ev := done
	if r.rep == nil {
		ev = lost
	}
	s.handle(ev, r, nil)
}

// closeStreams closes the streams that are at their end.
func (r *run) closeStreams() {
	if r.in.open {
		r.closeInput()
	}
	for _, st := range r.outs {
		switch {
		case st.pipe == nil: // the terminal
			st.watch()
		case st.eof || r.phase != over:
			st.watch() // for the next command
		default:
			r.shell.ends.passToJob(st.pipe)
			r.held = append(r.held, st)
		}
	}
	if r.phase != over {
		r.outs = nil
	}
}
