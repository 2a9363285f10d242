package session

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
	"wolffia/wire"
)

// A run is one command in the shell: a caller's, or one of our own.
type run struct {
	call  *Call // nil: our own
	text  []byte
	st    streams
	limit time.Duration // 0: none
	probe bool          // no command at all, only a report
	carry bool          // the command sees the last status
	job   *starting     // a job that is started by name
	done  func(*run)    // once, when it is over and its output complete

	nonce    string
	begun    time.Time
	outs     []*stream
	in       feeding
	attempt  int
	read     bool // the shell has read the text
	held     bool // output waits since it has not
	reports  reports
	again    string  // the word of a report that was asked for once more
	second   reports // those with that word: what they say is not the command's status
	rep      *report
	ended    bool // the shell is gone
	ws       syscall.WaitStatus
	timedOut bool
	killed   bool
	stage    int
	looks    int  // at a shell that does not answer, after SIGKILL
	idle     int  // how often in a row the shell was found at its prompt
	asked    int  // how far a lost report was searched for
	unknown  bool // the status is not the command's
	target   int  // the process group that got its signal
	unborn   bool // it was a copy of the shell that had not executed yet
}

// A feeding is a command's standard input.
type feeding struct {
	name    string // of its FIFO
	fd      int
	open    bool
	only    bool // not open to read any more: a command that has closed its end shows
	watched bool
	at      int // bytes of the first frame that are written
}

// begin starts a run.
// Precondition: there is a shell, and no other run.
func (s *Session) begin(r *run) {
	r.begun = time.Now()
	r.in.fd = -1
	s.try(r)
}

// try makes what a run needs and sends it to the shell. A directory in which
// nothing can be made is given up for another one.
func (s *Session) try(r *run) {
	s.cur = r
	err := s.open(r)
	if err != nil && s.move() == nil {
		s.closeStreams(r)
		r.outs = nil
		err = s.open(r)
	}
	if err != nil {
		s.giveUp(r, err) // nothing was sent: the shell is as it was
		return
	}
	s.launch(r)
}

// move gives the session another directory. The shell that runs goes on; what it
// would leave in the old one when it ends is lost.
func (s *Session) move() error {
	path, err := s.m.newDir()
	if err != nil {
		return err
	}
	d, err := newDir(path)
	if err != nil {
		return err
	}
	s.giveUpPipes()
	s.dir.remove()
	s.dir = d
	return nil
}

// giveUp ends a run that cannot be begun.
func (s *Session) giveUp(r *run, err error) {
	s.cur = nil
	s.closeStreams(r)
	r.unknown = true
	if r.call != nil {
		r.call.fail(wire.ClassUnavailable, err.Error())
	}
	r.done(r)
}

// open makes the command's file and streams.
func (s *Session) open(r *run) error {
	if r.probe {
		return nil
	}
	if len(r.text) == 0 {
		r.text = []byte("\n") // gVisor does not note a read of an empty file
	}
	if err := s.dir.writeText(r.text); err != nil {
		return err
	}
	if r.carry {
		if err := s.dir.write(carryName, []byte("return "+strconv.Itoa(s.lastStatus)+"\n")); err != nil {
			return err
		}
	}
	if r.st.tty {
		s.flushTerminal()
		r.outs = []*stream{newStream(wire.Stdout, s.shell.tty, r.call)}
		fd, err := unix.FcntlInt(uintptr(s.shell.tty), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return err
		}
		r.in.fd, r.in.open, r.in.only = fd, true, true
		return nil
	}
	types := [...]wire.Type{wire.Stdout, wire.Stderr}
	for i := range s.pipes {
		if i == 1 && r.st.merge {
			break
		}
		p := &s.pipes[i]
		if err := s.lay(p); err != nil {
			return err
		}
		st := newStream(types[i], p.fd, r.call)
		st.pipe, st.file = p, p.file
		r.outs = append(r.outs, st)
	}
	if r.st.stdin {
		name := token()
		fd, err := s.dir.fifo(name, unix.O_RDWR) // or the shell would wait for a writer
		if err != nil {
			return err
		}
		r.in.name, r.in.fd, r.in.open = name, fd, true
	}
	return nil
}

// carryName is the file that has a command see the status of the one before.
const carryName = "s"

// launch sends the packets.
func (s *Session) launch(r *run) {
	r.nonce = s.nonce()
	r.reports, r.again = reports{}, ""
	if !r.probe {
		carry := ""
		if r.carry {
			carry = carryName
		}
		s.send(s.d.run(s.dir.path, r.st, fifos{in: r.in.name, out: s.pipes[0].name, err: s.pipes[1].name}, carry))
	}
	s.send(s.d.report(r.nonce))
	s.send(s.d.settle())
	s.set(alarmLost, lostTick)
	if r.limit > 0 {
		s.alarms[alarmLimit] = r.begun.Add(r.limit)
	}
	if r.call != nil && r.attempt == 0 {
		s.publish()
	}
	if r.in.open {
		s.feed()
	}
}

// wasRead reports whether the shell has come to the text: then it has opened
// the streams. Where the file system keeps no access times it is true.
func (s *Session) wasRead(r *run) bool {
	if !r.read {
		r.read = r.probe || !s.dir.probe || s.dir.wasRead()
	}
	return r.read
}

// onStream passes output on. What comes before the shell has read the text
// is not the command's: it is left in the pipe until we know.
func (s *Session) onStream(st *stream) {
	r := s.cur
	if r.rep == nil && !st.capturing() && !s.wasRead(r) {
		s.unwatch(st)
		if !r.held {
			r.held = true
			s.set(alarmHold, holdLimit)
		}
		return
	}
	if r.rep != nil {
		s.drain()
		return
	}
	_, blocked := st.pump(false)
	if st.eof || blocked {
		s.unwatch(st)
	}
}

func (st *stream) capturing() bool { return st.call == nil }

// holdLimit is how long output waits for the text to be read.
const holdLimit = time.Second

// release lets held output go.
func (s *Session) release() {
	r := s.cur
	if r == nil || !r.held {
		return
	}
	r.held = false
	r.read = true
	s.clear(alarmHold)
	for _, st := range r.outs {
		s.rewatch(st)
	}
}

func (s *Session) unwatch(st *stream) {
	if !st.deaf {
		st.deaf = true
		s.poll.remove(st.fd)
	}
}

// rewatch hears a stream again that has more to come.
func (s *Session) rewatch(st *stream) {
	if !st.eof && !st.over {
		s.watch(st)
	}
}

func (s *Session) watch(st *stream) {
	if st.deaf {
		st.deaf = false
		s.poll.add(st.fd, unix.EPOLLIN)
	}
}

// onReport hears that the command is over.
func (s *Session) onReport(rep report) {
	r := s.cur
	r.rep = &rep
	s.clear(alarmLimit)
	s.clear(alarmLadder)
	s.clear(alarmLost)
	s.clear(alarmHold)
	if !r.probe && !s.ran(r) && !r.timedOut && !r.killed && r.attempt < maxAttempts {
		s.again(r)
		return
	}
	r.read = true
	if !r.probe && s.dir.wasReplaced(r.text) {
		r.unknown = true // its status is that of another text
	}
	if r.call != nil || r.probe {
		s.locate(rep.pwd)
	}
	if r.timedOut || r.killed {
		s.atOnce(func() { s.sweep(unix.SIGKILL) })
	}
	s.settleRun()
	s.drain()
}

// settleRun lets go of the pipes when the command has ended: what is in them
// is still to be read.
func (s *Session) settleRun() {
	r := s.cur
	now := time.Now()
	for _, st := range r.outs {
		st.drain.Begin(now, proc.Grace)
		if st.pipe != nil {
			st.pipe.let()
		}
	}
}

// ran reports whether the text was run at all: a shell that could not
// redirect, or that has a function named ".", comes back without.
func (s *Session) ran(r *run) bool {
	if s.dir.probe {
		return s.wasRead(r)
	}
	if r.st.tty {
		return true
	}
	for _, st := range r.outs {
		if !st.eof && !st.opened() {
			return false
		}
	}
	return true
}

// again runs a text that was not run: first after a repair, then in another
// shell.
func (s *Session) again(r *run) {
	r.attempt++
	r.rep, r.held = nil, false
	s.closeStreams(r)
	r.outs = nil
	s.giveUpPipes()
	s.dir.text.drop()
	if !s.dir.intact() {
		_ = s.move() // if it fails, so does the next attempt
	}
	if r.attempt == 1 {
		for _, line := range s.d.repair() {
			s.send(line)
		}
		s.try(r)
		return
	}
	s.replace()
	s.anew(r)
}

// maxAttempts is how often a text is sent once more that was not read.
const maxAttempts = 2

// anew runs a text in another shell.
// Precondition: the session has no shell.
func (s *Session) anew(r *run) {
	r.attempt = maxAttempts
	s.cur = nil
	s.closeStreams(r)
	r.outs = nil
	s.withShell(func(err error) {
		if err != nil {
			s.giveUp(r, err)
			return
		}
		r.begun = time.Now()
		r.carry = false
		s.try(r)
	})
}

// replace kills the shell for one that works.
func (s *Session) replace() {
	s.why = afterKill
	s.kill()
	s.restoredNext()
}

// locate finds out where the shell is: what it says if that is true, else
// what the kernel says. Of a path that is too long for the kernel to tell, what the
// shell says is all that is known.
func (s *Session) locate(pwd string) {
	link := s.shell.cwd
	var real, said unix.Stat_t
	if unix.Stat(link, &real) != nil {
		return
	}
	if strings.HasPrefix(pwd, "/") && statPath(pwd, &said) == nil && proc.FileOf(&real) == proc.FileOf(&said) {
		s.cwd = pwd
		return
	}
	name, err := os.Readlink(link)
	switch {
	case err != nil:
		s.cwd = pwd
	case real.Nlink == 0:
		s.cwd = strings.TrimSuffix(name, " (deleted)")
	default:
		s.cwd = name
	}
}

// statPath is stat(2) for paths of any length.
func statPath(path string, st *unix.Stat_t) error {
	const piece = unix.PathMax - 1 // its size has room for a NUL
	if len(path) <= piece {
		return unix.Stat(path, st)
	}
	at := unix.AT_FDCWD
	for {
		part := path
		if len(path) > piece {
			part = path[:strings.LastIndexByte(path[:piece], '/')+1]
		}
		if part == "" {
			return unix.ENAMETOOLONG // of one component
		}
		fd, err := unix.Openat(at, part, unix.O_PATH|unix.O_CLOEXEC, 0)
		if at != unix.AT_FDCWD {
			_ = unix.Close(at)
		}
		if err != nil {
			return err
		}
		if at, path = fd, strings.TrimLeft(path[len(part):], "/"); path == "" {
			break
		}
	}
	defer unix.Close(at)
	return unix.Fstat(at, st)
}

// drain reads what is left, and ends the run when nothing is.
func (s *Session) drain() {
	r := s.cur
	if r == nil || r.rep == nil && !r.ended {
		return
	}
	now := time.Now()
	complete := true
	var next time.Time
	for _, st := range r.outs {
		if st.over {
			continue
		}
		more, blocked := false, false
		if !st.eof {
			more, blocked = st.pump(true)
			if !st.eof && !st.drain.Held() {
				st.drain.Hold(proc.Buffered(st.fd))
			}
		}
		switch {
		case st.eof:
			st.over = true
		case r.st.tty && !more && !blocked:
			st.over = true
		case blocked:
			s.unwatch(st)
			complete = false
		case st.drain.Complete(now):
			st.over = true // a background process holds it
		default:
			complete = false
			s.rewatch(st)
			t := st.drain.Next()
			if more {
				t = now
			}
			if next.IsZero() || t.Before(next) {
				next = t
			}
		}
	}
	if !complete {
		for _, st := range r.outs {
			if st.over {
				s.unwatch(st) // it hangs up for as long as the others take
			}
		}
		s.alarms[alarmDrain] = next
		return
	}
	s.clear(alarmDrain)
	s.finish(r)
}

// finish ends a run.
func (s *Session) finish(r *run) {
	s.cur = nil
	s.clear(alarmLimit)
	s.clear(alarmLadder)
	s.clear(alarmLost)
	s.clear(alarmHold)
	if r.ended {
		s.restoredNext()
	}
	if r.st.tty && s.shell != nil && s.shell.saved != nil {
		s.shell.setTerminal(s.shell.saved)
	}
	held := s.closeStreams(r)
	tidy := func() {
		s.leftover(r, held)
		for i := range s.pipes {
			if p := &s.pipes[i]; p.fd >= 0 && p.held < 0 {
				s.hold(p)
			}
		}
	}
	if r.call != nil {
		s.after = tidy // once the result is out
	} else {
		tidy()
	}
	r.done(r)
}

// closeStreams closes what is at its end and returns what somebody holds.
func (s *Session) closeStreams(r *run) (held []*stream) {
	if r.in.open {
		s.closeInput(r)
	}
	for _, st := range r.outs {
		switch {
		case st.pipe == nil: // the terminal
			s.watch(st)
		case st.eof && st.pipe.held < 0 && !s.dir.probe:
			s.tear(st.pipe)
		case st.eof || r.rep == nil && !r.ended:
			s.watch(st) // for the next command
		default:
			s.leave(st.pipe)
			held = append(held, st)
		}
	}
	return held
}

// feed writes what waits to the command's standard input.
func (s *Session) feed() {
	r := s.cur
	c := r.call
	for r.in.open && len(c.input) > 0 {
		f := &c.input[0]
		n, err := unix.Write(r.in.fd, f.Payload()[r.in.at:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			if s.narrow(r) {
				continue
			}
			if !r.in.watched {
				r.in.watched = true
				s.poll.add(r.in.fd, unix.EPOLLOUT)
			}
			return
		case err != nil: // EPIPE: nobody wants it
			n = len(f.Payload()) - r.in.at
		}
		if r.in.at += n; r.in.at == len(f.Payload()) {
			n, r.in.at = len(f.Payload()), 0
			f.Release()
			c.input = c.input[1:]
			c.consumed(n)
		}
	}
	if r.in.watched {
		r.in.watched = false
		s.poll.remove(r.in.fd)
	}
	if c.closed && r.in.open && r.st.tty {
		_, _ = unix.Write(r.in.fd, []byte{4}) // VEOF, ^D (termios(3))
		s.closeInput(r)
	} else if c.closed && r.in.open && (s.wasRead(r) || !s.dir.probe) {
		s.closeInput(r)
	} else if c.closed && r.in.open {
		// Closed before the shell has opened it, it would wait for ever: close
		// again is tried with the next look.
		s.set(alarmLost, inputTick)
	}
}

// inputTick is how long to wait before looking whether the shell has opened
// its input.
const inputTick = time.Millisecond

// narrow gives up the read side of the input, once the shell has opened it,
// so that a command that does not read any more is noticed.
func (s *Session) narrow(r *run) bool {
	if r.in.only || !s.dir.probe || !s.wasRead(r) {
		return false
	}
	fd, err := s.dir.open(r.in.name, unix.O_WRONLY)
	if err != nil {
		return false
	}
	r.in.only = true
	if r.in.watched {
		r.in.watched = false
		s.poll.remove(r.in.fd)
	}
	_ = unix.Close(r.in.fd)
	r.in.fd = fd
	return true
}

func (s *Session) closeInput(r *run) {
	if r.in.watched {
		r.in.watched = false
		s.poll.remove(r.in.fd)
	}
	r.in.open = false
	closeFD(&r.in.fd)
	if r.in.name != "" {
		s.dir.unlink(r.in.name)
		r.in.name = ""
	}
}
