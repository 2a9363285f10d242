package session

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// perform runs a call that has its turn. The session is busy until idle.
func (s *Session) perform(c *Call) {
	if c.killed {
		c.giveUp()
		s.idle()
		return
	}
	dir, env := c.req.Dir, c.req.Env
	if dir == "" && len(env) == 0 {
		s.command(c)
		return
	}
	script, err := s.d.override(dir, env)
	if err != nil {
		c.fail(wire.ClassInvalid, err.Error())
		s.idle()
		return
	}
	cwd := s.cwd
	s.begin(&run{text: []byte(script), limit: restoreLimit, done: func(r *run) {
		s.cwd = cwd
		var whole bool
		s.restore, whole = r.captured(wire.Stdout)
		switch {
		case r.rep == nil:
			c.fail(wire.ClassUnavailable, "the shell does not take the call's environment")
			s.idle()
		case !whole:
			s.replace() // nothing else would put the variables back
			c.fail(wire.ClassUnavailable, fmt.Sprintf("what the call's environment replaces is larger than %d bytes, and cannot be put back: the shell was replaced; use smaller variables", maxCapture))
			s.restore = nil
			s.idle()
		case !bytes.HasSuffix(s.restore, []byte(overridden)):
			c.fail(wire.ClassInvalid, fmt.Sprintf("the call's environment and working directory %q cannot be set: %s", dir, strings.TrimSpace(r.complaint())))
			s.undoCall(s.idle)
		case c.killed: // meanwhile
			c.giveUp()
			s.undoCall(s.idle)
		default:
			s.command(c)
		}
	}})
}

// overridden is the last line of an override that has done all of it; one that was cut
// short says nothing. It is no exit status, of which a shell under set -e would die.
const overridden = "#overridden\n"

// override makes a script that sets directory and variables for one call and
// prints what undoes it.
func (d dialect) override(dir string, env []string) (string, error) {
	if strings.Contains(dir, "\x00") {
		return "", fmt.Errorf("working directory %q", dir)
	}
	var undo, do strings.Builder
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || !isName(name) || strings.Contains(value, "\x00") {
			return "", fmt.Errorf("variable %q: want NAME=VALUE", kv)
		}
		if d.posix {
			fmt.Fprintf(&undo, "printf 'unset %[1]s\n'; [ -z \"${%[1]s+x}\" ] || w \"$%[1]s\" %[1]s=\n", name)
			fmt.Fprintf(&undo, "case \"\n$x\n\" in *\"\nexport %[1]s=\"*|*\"\nexport %[1]s\n\"*) printf 'export %[1]s\n' ;; esac\n", name)
			fmt.Fprintf(&do, "export %s=%s && ", name, quote(value))
			continue
		}
		fmt.Fprintf(&undo, "\\builtin printf '\\\\builtin unset %[1]s\n'; \\builtin declare -p %[1]s 2>/dev/null || \\builtin :\n", name)
		fmt.Fprintf(&do, "\\builtin export %s=%s && ", name, quote(value))
	}
	if d.posix {
		// w prints a value as one word, without a program: quotes are replaced.
		head := "(\nx=$(export -p)\n" +
			`w() { v=$1; q=; while case $v in *\'*) ;; *) false ;; esac; do q=$q${v%%\'*}"'\\''"; v=${v#*\'}; done; printf "%s'%s'\n" "$2" "$q$v"; }` + "\n"
		if dir != "" {
			undo.WriteString("w \"$PWD\" 'cd -- '\n")
			do.WriteString(`\cd -- ` + quote(dir) + ` >/dev/null && `)
		}
		return head + undo.String() + ")\n" + do.String() + `printf '#overridden\n' || :` + "\n", nil
	}
	if dir != "" {
		undo.WriteString(`\builtin printf '\\builtin cd -- %q\nOLDPWD=%q\n' "$PWD" "${OLDPWD-}"` + "\n")
		do.WriteString(`\builtin cd -- ` + quote(dir) + ` >/dev/null && `)
	}
	return undo.String() + do.String() + `\builtin printf '#overridden\n' || \builtin :` + "\n", nil
}

func isName(name string) bool {
	for i, c := range []byte(name) {
		switch {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return name != ""
}

// undoCall takes back what perform has set for one call.
func (s *Session) undoCall(then func()) {
	text := s.restore
	s.restore = nil
	if len(text) == 0 || s.shell == nil {
		s.restore = text
		then()
		return
	}
	s.begin(&run{text: text, limit: restoreLimit, done: func(*run) { then() }})
}

// captured returns what a command of our own has written; whole says that it is all.
func (r *run) captured(typ wire.Type) (b []byte, whole bool) {
	for _, st := range r.outs {
		if st.typ == typ && st.capture != nil {
			kept, dropped := st.capture.Result()
			return kept, dropped == 0
		}
	}
	return nil, true
}

// complaint is what a command of our own has written on standard error.
func (r *run) complaint() string {
	b, _ := r.captured(wire.Stderr)
	return string(b)
}

// command runs the caller's text.
func (s *Session) command(c *Call) {
	if c.req.Session.Op == wire.SessionJobStart {
		s.startJob(c)
		return
	}
	if s.shell == nil { // it ended between our own commands
		c.fail(wire.ClassUnavailable, "the shell has ended")
		s.idle()
		return
	}
	if c.req.TTY && c.req.Rows > 0 && c.req.Cols > 0 {
		s.resize(c.req.Rows, c.req.Cols)
	}
	s.commands++
	cwd := s.cwd
	r := &run{
		call: c, text: []byte(c.req.Args[0]),
		st:    streams{stdin: c.req.Stdin && !c.req.TTY, merge: c.req.Merge, tty: c.req.TTY},
		limit: time.Duration(min(c.req.TimeoutMS, 1<<40)) * time.Millisecond,
		carry: s.lastStatus != 0 && !s.d.posix,
	}
	s.cling = s.cling || setsTrap(r.text)
	restored := s.restored
	s.restored = ""
	r.done = func(r *run) {
		if c.finished { // it could not be run
			s.restored = restored
			s.afterReply()
			return
		}
		if s.restored != "" && !r.ended { // it was another shell in the end
			restored, s.restored = s.restored, ""
		}
		if s.restore != nil && c.req.Dir != "" {
			s.cwd = cwd // the call's directory was for the call
		}
		s.reply(r, restored)
		s.afterReply()
	}
	if r.limit > 0 { // the host counts too; else nobody waits for that word
		c.started()
	}
	s.begin(r)
}

// afterReply puts the session in order when a caller has its result.
func (s *Session) afterReply() {
	if f := s.after; f != nil {
		s.after = nil
		f()
	}
	s.undoGuard(func() { s.undoCall(s.idle) })
}

// undoGuard puts the user's trap on SIGINT back that the guard's has put aside.
func (s *Session) undoGuard(then func()) {
	const limit = 1 << 20 // of such a trap, in bytes
	if !s.guarded || s.shell == nil {
		s.guarded = false
		then()
		return
	}
	s.guarded = false
	text := s.dir.take(s.shell.names.aside, limit)
	if len(text) == 0 || len(text) == limit {
		then()
		return
	}
	s.begin(&run{text: text, limit: restoreLimit, done: func(*run) { then() }})
}

// reply sends the result.
func (s *Session) reply(r *run, restored string) {
	c := r.call
	st := wire.ExitStatus{
		Cwd: wire.Path(s.cwd), DurationMS: time.Since(r.begun).Milliseconds(),
		SessionEnded: r.ended, Restored: restored, StatusLost: r.unknown && !r.ended,
	}
	known := true
	switch {
	case r.ended && r.rep == nil && r.stage >= stageReplace:
		known = false
		st.Code, st.Signal = 128+int(unix.SIGKILL), int(unix.SIGKILL)
	case r.ended && r.rep == nil:
		st.Code = r.ws.ExitStatus()
		if r.ws.Signaled() {
			st.Signal = int(r.ws.Signal())
			st.Code = 128 + st.Signal
		}
	default:
		st.Code = r.rep.status
	}
	s.lastStatus = st.Code
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
	if r.ended {
		s.lastStatus = 0
	}
	// Exit is the end of both streams too: no frames of their own for that.
	s.publish()
	c.exit(st)
}

// takeSnapshot asks an idle shell for its state.
func (s *Session) takeSnapshot() {
	if s.busy || s.shell == nil || s.dead {
		return
	}
	s.busy = true
	s.snapshotNow(snapshotLimit, s.idle)
}

// snapshotNow takes one as a command of our own.
// Precondition: busy, a shell, and no run.
func (s *Session) snapshotNow(limit time.Duration, then func()) {
	at := s.commands
	s.begin(&run{text: []byte(s.d.snapshotScript()), limit: limit, done: func(r *run) {
		said, whole := r.captured(wire.Stdout)
		if snap, ok := parseSnapshot(s.d, said); ok && whole && r.rep != nil {
			s.snap, s.snapAt, s.cling = &snap, at, false
		} else if r.rep != nil {
			s.snapAt = at // it has none: not again before something changes
		}
		then()
	}})
}

func (s *Session) resize(rows, cols uint16) {
	s.rows, s.cols = rows, cols
	if s.shell != nil {
		_ = setSize(s.shell.tty, rows, cols)
	}
}

// postFor posts f for a call, or has its handler take over if it is another
// one by then.
func (s *Session) postFor(c *Call, other func(handler), f func()) {
	s.post(func() {
		if h := c.handler(); h != handler(s) {
			other(h)
			return
		}
		f()
	})
}

// What a call's frames ask for; see handler.

func (s *Session) onInput(c *Call, f wire.Frame) {
	s.postFor(c, func(h handler) { h.onInput(c, f) }, func() {
		if c.finished || c.closed || !c.req.Stdin {
			n := len(f.Payload())
			f.Release()
			if !c.finished {
				c.consumed(n)
			}
			return
		}
		c.input = wire.Enqueue(c.input, f)
		s.feedCall(c)
	})
}

func (s *Session) feedCall(c *Call) {
	if s.cur != nil && s.cur.call == c && s.cur.in.open {
		s.feed()
	}
}

func (s *Session) onClose(c *Call) {
	s.postFor(c, func(h handler) { h.onClose(c) }, func() {
		c.closed = true
		s.feedCall(c)
	})
}

func (s *Session) onSignal(c *Call, sig syscall.Signal) {
	s.postFor(c, func(h handler) { h.onSignal(c, sig) }, func() {
		switch {
		case c.finished:
		case s.cur != nil && s.cur.call == c:
			if s.cur.rep == nil {
				s.signalForeground(sig)
			}
		case sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT:
			s.withdraw(c) // it has not begun
		}
	})
}

func (s *Session) onKill(c *Call) {
	s.postFor(c, func(h handler) { h.onKill(c) }, func() {
		if c.finished {
			return
		}
		c.killed = true
		if s.cur != nil && s.cur.call == c {
			s.letGo(s.cur)
			s.interrupt()
			s.drain()
			return
		}
		s.withdraw(c)
	})
}

// letGo has a run end whose caller has given it up, or who loses it: nobody needs to
// give credit for its output any more.
func (s *Session) letGo(r *run) {
	r.killed, r.call.killed = true, true
	for _, st := range r.outs {
		s.rewatch(st)
	}
}

// withdraw takes a call back that waits for its turn, or for its shell.
func (s *Session) withdraw(c *Call) {
	c.killed = true
	for i, q := range s.queue {
		if q == c {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.publish()
			c.giveUp()
			return
		}
	}
}

func (s *Session) onResize(c *Call, rows, cols uint16) {
	s.postFor(c, func(h handler) { h.onResize(c, rows, cols) }, func() {
		if c.req.TTY && !c.finished {
			s.resize(rows, cols)
		}
	})
}

func (s *Session) onCredit(c *Call, typ wire.Type, n int) {
	s.postFor(c, func(h handler) { h.onCredit(c, typ, n) }, func() {
		c.addCredit(typ, n)
		if s.cur == nil || s.cur.call != c {
			return
		}
		for _, st := range s.cur.outs {
			if !s.cur.held {
				s.rewatch(st)
			}
		}
		s.drain()
	})
}
