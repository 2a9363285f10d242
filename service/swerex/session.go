package swerex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"time"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// prompt is what SWE-ReX waits for after each command, and says that it has found. Sessions here have
// no prompt.
const prompt = "SHELLPS1PREFIX"

// defaultSession is the session of a request that names none.
const defaultSession = "default"

// A sessionRequest is the body of /create_session and /close_session.
type sessionRequest struct {
	Session string   `json:"session"`
	Source  []string `json:"startup_source"`
	Timeout *float64 `json:"startup_timeout"` // s; nil: 1
}

// A sessionReply is the reply to both.
type sessionReply struct {
	Output *string `json:"output,omitempty"`
	Type   string  `json:"session_type"`
}

// createSession serves POST /create_session.
func (h *Handler) createSession(ctx context.Context, in *service.Inside, q *sessionRequest) (any, error) {
	name := cmp.Or(q.Session, defaultSession)
	if _, err := in.CreateSession(ctx, name, ""); err != nil {
		return nil, sessionFault(err, name)
	}
	text := "PS1=" + prompt + "\n" // without it start files do nothing
	for _, file := range q.Source {
		text += "source " + file + "\n" // the caller's words: it may begin with ~
	}
	r, err := h.shells.start(ctx, in, shellOf{in.Sandbox().ID, name}, text, false)
	if err != nil {
		return nil, sessionFault(err, name)
	}
	limit := time.Second
	if q.Timeout != nil {
		limit = seconds(*q.Timeout)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, _, err := r.await(within, nil)
	if err != nil {
		_ = r.Close()
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		_ = in.DestroySession(undo, name)
		text := fmt.Sprintf("session %q: the files of startup_source have not ended in %v", name, limit)
		return nil, raise("CommandTimeoutError", text)
	}
	output := clean(out)
	return sessionReply{&output, "bash"}, nil
}

// undoLimit is how long it may take to end a session that has not started.
const undoLimit = 10 * time.Second

// closeSession serves POST /close_session.
func (h *Handler) closeSession(ctx context.Context, in *service.Inside, q *sessionRequest) (any, error) {
	name := cmp.Or(q.Session, defaultSession)
	return sessionReply{Type: "bash"}, sessionFault(in.DestroySession(ctx, name), name)
}

// sessionFault gives the errors of a session their classes.
func sessionFault(err error, name string) error {
	switch runtime.Class(err) {
	case runtime.ErrNotFound:
		return raise("SessionDoesNotExistError", fmt.Sprintf("session %q does not exist", name))
	case runtime.ErrExists:
		return raise("SessionExistsError", fmt.Sprintf("session %q already exists", name))
	case runtime.ErrInvalid:
		return raise("builtins.ValueError", err.Error())
	}
	return err
}

// An action is the body of /run_in_session.
type action struct {
	Type        string   `json:"action_type"` // empty: bash
	Command     string   `json:"command"`
	Session     string   `json:"session"`
	Timeout     *float64 `json:"timeout"` // s; nil: none, of bash_interrupt 0.2
	Interactive bool     `json:"is_interactive_command"`
	Quit        bool     `json:"is_interactive_quit"`
	Check       string   `json:"check"` // silent, ignore; empty: raise
	Message     string   `json:"error_msg"`
	Expect      []string `json:"expect"`
	Retries     *int     `json:"n_retry"` // of bash_interrupt; nil: 3
}

// An observation is the reply to an action.
type observation struct {
	Output   string `json:"output"`
	ExitCode *int   `json:"exit_code"`
	Reason   string `json:"failure_reason"`
	Expect   string `json:"expect_string"`
	Type     string `json:"session_type"`
}

// runInSession serves POST /run_in_session. One action is done at a time; an interrupt does not wait.
func (h *Handler) runInSession(ctx context.Context, in *service.Inside, q *action) (any, error) {
	q.Session = cmp.Or(q.Session, defaultSession)
	var patterns []*regexp.Regexp
	for _, text := range q.Expect {
		p, err := regexp.Compile("(?s)" + text)
		if err != nil {
			return nil, raise("builtins.ValueError", fmt.Sprintf("expect %q: want a regular expression of RE2: %v", text, err))
		}
		patterns = append(patterns, p)
	}
	of := shellOf{in.Sandbox().ID, q.Session}
	sh := h.shells.enter(of)
	defer h.shells.leave(of)
	if q.Type == "bash_interrupt" {
		return h.interrupt(ctx, in, sh, q, patterns)
	}
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	within := ctx
	if q.Timeout != nil {
		limited, cancel := context.WithTimeout(ctx, seconds(*q.Timeout))
		defer cancel()
		within = limited
	}
	r := h.shells.running(sh)
	if r != nil && r.tty {
		q.Interactive = q.Interactive || !q.Quit // the program decides what its input means
		if err := typeIn(within, r, q.Command+"\n"); err != nil {
			return nil, h.late(ctx, sh, r, q)
		}
	} else {
		tty := q.Interactive || q.Quit || len(q.Expect) > 0
		err := error(nil)
		if !q.Interactive && !q.Quit {
			err = checkSyntax(ctx, in, q.Command)
		}
		if err == nil {
			r, err = h.shells.start(ctx, in, of, q.Command, tty)
		}
		if err != nil {
			return nil, sessionFault(err, q.Session)
		}
	}
	if !r.tty {
		patterns = nil
	}
	out, which, err := r.await(within, patterns)
	if err != nil {
		return nil, h.late(ctx, sh, r, q)
	}
	return q.observe(ctx, r, out, which)
}

// typeIn writes what a program reads, or gives up at the end of ctx.
func typeIn(ctx context.Context, r *running, text string) error {
	done := make(chan struct{})
	go func() { // ends with the program, which may not read
		defer close(done)
		_, _ = io.WriteString(r.Stdin(), text) // else it has ended, which await says
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// late returns the error of an action that has not ended in its time. The command goes on, as in
// SWE-ReX, until it is interrupted; that of a client that has gone ends.
func (h *Handler) late(ctx context.Context, sh *shell, r *running, q *action) error {
	if ctx.Err() != nil {
		_ = r.Close()
		return context.Cause(ctx)
	}
	text := fmt.Sprintf("timeout after %v seconds while running command %q", *q.Timeout, q.Command)
	if h.shells.running(sh) != r {
		_ = r.Close()
		text += ": it has not begun, since an earlier command runs: interrupt that"
	}
	return raise("CommandTimeoutError", text)
}

// exitLimit is how long a command may take to end that has written what the client expects, if the
// client wants its exit code.
const exitLimit = time.Second

// observe returns the reply to an action whose command has ended, or has written what was expected.
func (q *action) observe(ctx context.Context, r *running, out []byte, which int) (any, error) {
	o := &observation{Expect: prompt, Type: "bash"}
	if which >= 0 {
		o.Expect = q.Expect[which]
	}
	o.Output = r.lost() + clean(out)
	if q.Interactive {
		text := strings.TrimLeft(o.Output, " \t\r\n")
		o.Output = strings.TrimSpace(strings.TrimPrefix(text, q.Command)) // a terminal shows what is typed
	}
	if q.Interactive || q.Quit {
		o.ExitCode = new(int)
		return o, nil
	}
	if which >= 0 && q.Check != "ignore" {
		within, cancel := context.WithTimeout(ctx, exitLimit)
		defer cancel()
		rest, _, err := r.await(within, nil)
		if err != nil && q.Check != "silent" {
			text := fmt.Sprintf("command %q: it goes on after %q: use check=ignore, or is_interactive_command", q.Command, o.Expect)
			return nil, raise("NoExitCodeError", text)
		} else if err == nil {
			which = -1
		}
		o.Output += clean(rest)
	}
	if which < 0 {
		if r.err != nil {
			return nil, sessionFault(r.err, q.Session)
		}
		o.ExitCode, o.Reason = exitOf(&r.result)
	}
	return o, q.check(o)
}

// check returns the exception for a command that has failed, and sets the exit code as the client
// wants it.
func (q *action) check(o *observation) error {
	switch {
	case q.Check == "ignore":
		o.ExitCode = nil
	case q.Check == "silent":
	case o.ExitCode == nil:
		return raise("NoExitCodeError", fmt.Sprintf("command %q: its exit code is not known: %s", q.Command, o.Reason))
	case *o.ExitCode != 0:
		const text = "Command %q failed with exit code %d. Here is the output:\n%q"
		return failed(q.Message, text, q.Command, *o.ExitCode, o.Output)
	}
	return nil
}

// failed returns the exception for a command that has failed.
func failed(message, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if message != "" {
		text = message + ": " + text
	}
	return raise("NonZeroExitCodeError", text)
}

// exitOf returns the exit code of a command, nil if that is not known, and what else is to be said.
func exitOf(r *runtime.Result) (code *int, reason string) {
	if r.Session == nil || !r.Session.StatusLost {
		code = &r.ExitCode
	}
	return code, strings.Join(ops.Notes(r), "; ")
}

// interrupt interrupts what runs in a session, and ends it if it goes on.
func (h *Handler) interrupt(
	ctx context.Context, in *service.Inside, sh *shell, q *action, patterns []*regexp.Regexp,
) (any, error) {
	r := h.shells.running(sh)
	if r == nil {
		_, err := in.Session(ctx, q.Session)
		return &observation{ExitCode: new(int), Expect: prompt, Type: "bash"}, sessionFault(err, q.Session)
	}
	if !r.tty {
		patterns = nil
	}
	limit, retries := 200*time.Millisecond, 3
	if q.Timeout != nil {
		limit = seconds(*q.Timeout)
	}
	if q.Retries != nil {
		retries = min(*q.Retries, 100)
	}
	for try := 0; ; try++ {
		if try < retries {
			_ = r.Signal(syscall.SIGINT)
		} else {
			_ = r.Close()
			limit = undoLimit
		}
		within, cancel := context.WithTimeout(ctx, limit)
		out, which, err := r.await(within, patterns)
		cancel()
		switch {
		case err == nil:
			o := &observation{Output: strings.TrimSpace(r.lost() + clean(out)), ExitCode: new(int), Expect: prompt, Type: "bash"}
			if which >= 0 {
				o.Expect = q.Expect[which]
			}
			return o, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case try >= retries:
			return nil, raise("CommandTimeoutError", fmt.Sprintf("session %q: the command cannot be ended", q.Session))
		}
	}
}

// syntaxLimit is how long bash may take to check a command.
const syntaxLimit = 10 * time.Second

// checkSyntax returns the exception for a text that bash cannot parse. Without bash it checks nothing.
func checkSyntax(ctx context.Context, in *service.Inside, text string) error {
	r, err := in.Exec(ctx, &runtime.Command{
		Command: []string{"bash", "-n"}, Cwd: "/", Stdin: strings.NewReader(text), Timeout: syntaxLimit,
	})
	switch {
	case errors.As(err, new(*runtime.StartError)), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil // the session says what is wrong
	case err != nil || r.ExitCode == 0:
		return err
	}
	stdout, stderr := escape(r.Stdout), escape(r.Stderr)
	const form = "Error (exit code %d) while checking bash command \n%q\n---- Stderr ----\n%s\n---- Stdout ----\n%s"
	e := raise("BashIncorrectSyntaxError", fmt.Sprintf(form, r.ExitCode, text, stderr, stdout))
	e.Extra = map[string]any{"bash_stdout": stdout, "bash_stderr": stderr}
	return e
}
