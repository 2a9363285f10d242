package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
	"wolffia/wire"
)

// scrollback is how much of what a terminal has printed is kept, in bytes.
const scrollback = 1 << 20

// terminalRoom is more than a terminal buffers at a time, in bytes. It bounds the bytes that are
// read once the shell has ended, if other processes continue to print. (Linux: 8 KiB and a piece,
// tty_buffer_set_limit in drivers/tty/pty.c. gVisor: 132 KiB, in
// pkg/sentry/fsimpl/devpts/queue.go.)
const terminalRoom = 256 << 10

// A terminal is a second shell of a session, for a person: interactive, with
// line editing, on a terminal of its own, with the state that the session had
// when it was started. It lives until that shell ends or the session does,
// with or without viewers.
type terminal struct {
	tty  *os.File // the master side
	pid  int
	rows uint16 // guarded by mu
	cols uint16 // guarded by mu

	mu      sync.Mutex
	change  *sync.Cond // anything below has changed; uses mu
	ring    *excerpt.Ring
	viewers map[*Call]*viewer
	eof     bool                // nothing more will be printed
	status  *syscall.WaitStatus // nil: the shell runs
	over    bool                // the session has ended
}

// Terminals are those that a session has had, one after the other. They belong to its turn, but
// for last.
type terminals struct {
	program   string                   // their program; empty: their users type commands
	mark      proc.Mark                // of all that their shells start
	startFile string                   // what the last of those has read first; empty: there was none
	last      atomic.Pointer[terminal] // nil: there was no viewer yet
}

// A viewer is one channel that watches a terminal.
type viewer struct {
	watcher
	t      *terminal
	at     uint64 // offset of the next byte to send; guarded by t.mu
	closed bool   // nothing more is sent or read; guarded by t.mu
	took   bool   // another viewer has taken over; guarded by t.mu
	in     chan wire.Frame
}

// attach begins a viewer, and starts the terminal unless it runs. A session's program is run once:
// later viewers get its output so far, and how it ended.
func (s *Session) attach(c *Call) {
	if s.refuses(c) {
		return
	}
	if t := s.terms.last.Load(); t != nil && (s.terms.program != "" || t.alive()) {
		t.watch(c)
		return
	}
	if s.state != idle || s.shell == nil || s.saved.current() && s.saved.snap != nil {
		s.startTerminal(c) // with the state as it was last seen
		return
	}
	s.task = &task{kind: snapshotTask, call: c}
	s.work()
}

// startTerminal starts the terminal for its first viewer.
func (s *Session) startTerminal(c *Call) {
	switch {
	case s.refuses(c):
		return
	case c.killed:
		c.giveUp()
		return
	}
	t, err := s.terms.start(&s.m.host, &s.saved, s.ends, c.req)
	if err != nil {
		c.fail(wire.ClassUnavailable, fmt.Sprintf("session %q: terminal: %v", s.name, err))
		return
	}
	t.watch(c)
}

// info describes the terminal, if it is still there.
func (ts *terminals) info() *wire.TerminalInfo {
	t := ts.last.Load()
	if t == nil || !t.alive() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.describe()
	return &i
}

// start starts a shell for a person, with the state that was saved.
func (ts *terminals) start(
	h *Host, saved *checkpoint, ends *endpoints, req *wire.StartRequest,
) (*terminal, error) {
	spec := saved.spec
	t := &terminal{ring: excerpt.NewRing(scrollback), viewers: map[*Call]*viewer{}, rows: req.Rows, cols: req.Cols}
	t.change = sync.NewCond(&t.mu)
	if t.rows == 0 || t.cols == 0 {
		t.rows, t.cols = spec.rows, spec.cols
	}
	env := append(append([]string{}, spec.env...), req.Env...)
	script := ""
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PS1=") }) {
		host, _ := os.Hostname() // the sandbox's name
		script = spec.d.Prompt(host)
	}
	if spec.rc && !spec.d.POSIX {
		script += "[[ ! -r ~/.bashrc ]] || \\. ~/.bashrc\n"
	}
	if saved.snap != nil {
		_, attended := spec.d.Attended(dialect.Unattended(spec.env))
		state := string(saved.snap.Restore(filepath.Dir(ends.dir.path), dialect.ForAttach))
		script = "{\n" + state + attended + "} 2>/dev/null\n" + script
	}
	if ts.startFile != "" {
		ends.dir.unlink(ts.startFile)
	}
	ts.startFile = token()
	if err := ends.dir.write(ts.startFile, []byte(script)); err != nil {
		return nil, err
	}
	args := []string{spec.path, "--noprofile", "--rcfile", ends.dir.path + "/" + ts.startFile, "-i"}
	if spec.d.POSIX {
		args = []string{spec.path, "-i"}
		env = append(env, "ENV="+ends.dir.path+"/"+ts.startFile)
	}
	if ts.program != "" { // it ends with that
		args = append(args, "-c", ts.program)
	}
	cwd := saved.cwd
	if proc.CheckDir(cwd) != nil {
		cwd = "/"
	}
	fd, slave, err := openTerminal(h, t.rows, t.cols)
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	t.tty = os.NewFile(uintptr(fd), "terminal")
	if err := spec.own(slave); err != nil {
		_ = t.tty.Close()
		return nil, err
	}
	path, args := spec.command(args)
	t.pid, err = h.Start(spec.umask, path, args, &syscall.ProcAttr{
		Dir: cwd, Env: env, Files: []uintptr{slave.Fd(), slave.Fd(), slave.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}, func(ws syscall.WaitStatus) {
		if ws.Stopped() {
			return
		}
		t.mu.Lock()
		t.status = &ws
		t.change.Broadcast()
		_ = t.tty.SetReadDeadline(time.Now().Add(proc.Grace)) // another process may still have it open
		t.mu.Unlock()
	})
	if err != nil {
		_ = t.tty.Close()
		return nil, err
	}
	ts.mark.Put(t.pid)
	ts.last.Store(t)
	go t.read() // ends when no process has the terminal open
	return t, nil
}

// read keeps the output of the terminal. It does not run ahead of the fastest viewer.
func (t *terminal) read() {
	buf := make([]byte, 32<<10)
	for late := 0; ; {
		n, err := t.tty.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) && late < terminalRoom {
			// The deadline does not affect bytes that came before it.
			n, err = t.left(buf)
			late += n
		}
		t.mu.Lock()
		for n > 0 && len(t.viewers) > 0 && !t.over && t.lag() > scrollback/2 {
			t.change.Wait()
		}
		t.ring.Write(buf[:n])
		if err != nil { // EIO: no process has it open; EAGAIN: the shell does not have it open; or it was closed
			t.eof = true
			for t.status == nil { // soon: the shell was the last
				t.change.Wait()
			}
			_ = t.tty.Close()
		}
		t.change.Broadcast()
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// left reads the available bytes, without waiting.
func (t *terminal) left(b []byte) (n int, err error) {
	err = os.ErrClosed
	t.control(func(fd int) { n, err = read(fd, b) })
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// lag is how far the fastest viewer is behind.
func (t *terminal) lag() uint64 {
	lag := t.ring.End()
	for _, v := range t.viewers {
		lag = min(lag, t.ring.End()-min(v.at, t.ring.End()))
	}
	return lag
}

func (t *terminal) alive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.eof && t.status == nil && !t.over
}

func (t *terminal) describe() wire.TerminalInfo {
	return wire.TerminalInfo{PID: t.pid, Start: t.ring.Start(), End: t.ring.End(), Viewers: len(t.viewers), Rows: t.rows, Cols: t.cols}
}

// watch makes c a viewer.
func (t *terminal) watch(c *Call) {
	q := c.req.Session
	v := &viewer{watcher: watcher{change: t.change}, t: t, in: make(chan wire.Frame, wire.Window/16)}
	t.mu.Lock()
	if q.Takeover {
		for _, other := range t.viewers {
			other.took = true
		}
		t.change.Broadcast()
	}
	v.at = min(max(q.Offset, t.ring.Start()), t.ring.End())
	t.viewers[c] = v
	t.mu.Unlock()
	for _, f := range c.input { // what came before
		v.onInput(c, f)
	}
	c.input = nil
	c.setHandler(v)
	if c.req.Rows > 0 && c.req.Cols > 0 {
		v.onResize(c, c.req.Rows, c.req.Cols)
	}
	go v.run(c) // ends with the viewer
	go v.write(c)
}

// run sends the terminal's output, until the viewer or the terminal ends.
func (v *viewer) run(c *Call) {
	t := v.t
	t.mu.Lock()
	info := t.describe()
	info.Start = v.at
	t.mu.Unlock()
	_ = c.w.SendJSON(wire.Stderr, c.channel, info)
	_ = c.w.Send(wire.Stderr, c.channel, []byte("\n"))
	t.mu.Lock()
	for !c.killed && !v.took {
		switch sent := v.send(c, wire.Stdout, t.ring, &v.at); {
		case sent:
			t.change.Broadcast() // read may continue
			continue
		case (t.eof && t.status != nil || t.over) && v.at >= t.ring.End():
		default:
			t.change.Wait()
			continue
		}
		break
	}
	st := wire.ExitStatus{StdoutEnd: v.at, Detached: v.took || c.killed, SessionEnded: t.over}
	if t.status != nil && !st.Detached {
		ended := wire.StatusOf(*t.status)
		st.Code, st.Signal = ended.Code, ended.Signal
	}
	delete(t.viewers, c)
	v.closed = true
	close(v.in)
	t.change.Broadcast()
	t.mu.Unlock()
	c.exit(st)
}

// write writes what the viewer types.
func (v *viewer) write(c *Call) {
	for f := range v.in {
		n := len(f.Payload())
		v.t.mu.Lock()
		closed := v.closed || c.killed
		v.t.mu.Unlock()
		if !closed {
			_, _ = v.t.tty.Write(f.Payload())
		}
		f.Release()
		if !closed {
			c.consumed(n)
		}
	}
}

func (v *viewer) onInput(c *Call, f wire.Frame) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if v.closed || c.killed {
		f.Release()
		return
	}
	f.Shrink()
	select {
	case v.in <- f:
	default: // many tiny frames that are not read: typing into a stuck terminal
		f.Release()
	}
}

func (v *viewer) onSignal(_ *Call, sig syscall.Signal) {
	v.t.control(func(fd int) {
		if pg, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && pg > 1 {
			_ = unix.Kill(-pg, sig)
		}
	})
}

func (v *viewer) onResize(_ *Call, rows, cols uint16) {
	v.t.mu.Lock()
	v.t.rows, v.t.cols = rows, cols
	v.t.mu.Unlock()
	v.t.control(func(fd int) { _ = setSize(fd, rows, cols) })
}

func (t *terminal) control(f func(fd int)) {
	if conn, err := t.tty.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// end ends the last person's shell with the session.
func (ts *terminals) end() {
	t := ts.last.Load()
	if t == nil {
		return
	}
	t.mu.Lock()
	alive := t.status == nil
	t.over = true
	t.change.Broadcast()
	t.mu.Unlock()
	tree := &proc.Tree{Shell: true, Mark: ts.mark} // what earlier ones, too, have left running
	if alive {
		tree.Root = t.pid
	}
	tree.Kill(deathLimit)
	if alive {
		_ = unix.Kill(t.pid, unix.SIGKILL)
	}
	_ = t.tty.Close()
}
