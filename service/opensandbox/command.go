package opensandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"wolffia/ops"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// A commandRequest is the body of POST /command and POST /session/{session}/run.
type commandRequest struct {
	Command    string            `json:"command"`
	Cwd        string            `json:"cwd"`
	Background bool              `json:"background"`
	Timeout    int64             `json:"timeout"` // ms; 0: none
	UID        *int              `json:"uid"`
	GID        *int              `json:"gid"`
	Envs       map[string]string `json:"envs"`
	// ResumeWithin is how long the command goes on when its client has gone, in ms; 0: it is
	// killed at once.
	ResumeWithin int64 `json:"resumeWithin"`
}

// maxTimeout is the largest timeout of a command, in ms.
const maxTimeout = int64(1 << 40)

// commandOf reads the body of a request, and checks it for a sandbox.
func (d *execd) commandOf(w http.ResponseWriter, r *http.Request, box *service.Sandbox) (*commandRequest, *runtime.Command, error) {
	var q commandRequest
	if err := d.decode(w, r, commandBody, &q); err != nil {
		return nil, nil, err
	}
	wrong := func(format string, args ...any) (*commandRequest, *runtime.Command, error) {
		return nil, nil, &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", fmt.Sprintf(format, args...)}
	}
	switch {
	case strings.TrimSpace(q.Command) == "":
		return wrong("command: empty")
	case strings.ContainsRune(q.Command, 0):
		return wrong("command: it contains a NUL, which no shell can have")
	case q.Timeout < 0 || q.Timeout > maxTimeout:
		return wrong("timeout %d: it must be from 0 to %d ms", q.Timeout, maxTimeout)
	case q.ResumeWithin < 0 || q.ResumeWithin > stream.MaxWithin.Milliseconds():
		return wrong("resumeWithin %d: it must be from 0 to %d ms", q.ResumeWithin, stream.MaxWithin.Milliseconds())
	}
	user, err := userOf(q.UID, q.GID, box.Sandbox)
	if err != nil {
		return nil, nil, err
	}
	for k, v := range q.Envs {
		if err := runtime.CheckVariable(k, v); err != nil {
			return nil, nil, err
		}
	}
	return &q, &runtime.Command{
		Command: []string{q.Command}, Cwd: q.Cwd, Env: q.Envs, Timeout: time.Duration(q.Timeout) * time.Millisecond,
		User: user,
	}, nil
}

// userOf returns the user inside for the ids that a request gives; empty: the sandbox's own.
func userOf(uid, gid *int, box *runtime.Sandbox) (string, error) {
	if !box.Root {
		if uid != nil && *uid != box.UID || gid != nil && *gid != box.GID {
			return "", unsupported("uid, gid: all processes of the sandbox are of uid %d and gid %d; others need root inside: serve with --root", box.UID, box.GID)
		}
		return "", nil
	}
	user := "0"
	switch {
	case uid == nil && gid == nil:
		return "", nil
	case uid != nil && *uid < 0 || gid != nil && *gid < 0:
		return "", &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", "uid, gid: less than 0"}
	case uid != nil:
		user = strconv.Itoa(*uid)
	}
	if gid != nil {
		user += ":" + strconv.Itoa(*gid)
	}
	return user, nil
}

// command serves POST /command.
func (d *execd) command(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	q, params, err := d.commandOf(w, r, in.Sandbox())
	if err != nil {
		return err
	}
	if q.Background {
		id, err := in.Background(r.Context(), params)
		if err != nil {
			return commandFault(err)
		}
		s := d.newStream(w)
		s.Greet(event{Type: "init", Text: id}, pong)
		s.Last(event{Type: "execution_complete", ExecutionTime: new(int64)})
		return nil
	}
	return d.run(w, r, in, params, q)
}

// runInSession serves POST /session/{session}/run.
func (d *execd) runInSession(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	q, params, err := d.commandOf(w, r, in.Sandbox())
	if err != nil {
		return err
	}
	params.Session = r.PathValue("session")
	return d.run(w, r, in, params, q)
}

// commandFault gives the errors of a command their codes.
func commandFault(err error) error {
	switch runtime.Class(err) {
	case runtime.ErrNotFound:
		return &fault{http.StatusNotFound, "CONTEXT_NOT_FOUND", err.Error()}
	case runtime.ErrInvalid:
		return &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", err.Error()}
	}
	return err
}

// run runs a command and sends its output until it ends, or the client has gone.
func (d *execd) run(w http.ResponseWriter, r *http.Request, in *service.Inside, params *runtime.Command, q *commandRequest) error {
	if q.ResumeWithin > 0 {
		return d.runResumable(w, r, in, params, time.Duration(q.ResumeWithin)*time.Millisecond)
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := stream.NewLive(w, d.opts.WriteLimit, pong, cancel)
	defer s.Over()
	started := s.Run
	if params.Session != "" { // it exists, or did: the command begins, or waits for others
		s.Run()
		started = nil
	}
	c, err := in.Run(ctx, params, started)
	if err != nil && ctx.Err() != nil {
		err = canceled(ctx)
	}
	if err != nil {
		return commandFault(err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	s.Greet(event{Type: "init", Text: c.ID}, pong)
	exit, err := follow(s, c)
	if !stop() { // the command was ended; it is not its own status
		err = canceled(ctx)
	}
	if err != nil && (!s.Running() || runtime.Class(err) == runtime.ErrNotFound && s.Leave()) {
		return commandFault(err)
	}
	s.Last(lastEvent(exit, err, time.Since(begin)))
	return nil
}

// canceled returns why the context of a request has ended: the client has gone, or the service is being stopped.
func canceled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return cause
	}
	return &fault{http.StatusServiceUnavailable, "UNAVAILABLE", cause.Error()}
}

// follow sends the output of a command, and returns how it has ended.
func follow(to stream.Sender[event], c *service.Command) (runtime.Result, error) {
	send := func(kind string) ops.Sink { return func(r io.Reader) error { return copyLines(to, kind, r) } }
	return ops.Follow(context.Background(), c, send("stdout"), send("stderr"))
}

// lastEvent returns the last event of a command.
func lastEvent(exit runtime.Result, err error, took time.Duration) event {
	ms := took.Milliseconds()
	exit.Duration = took
	all := ops.ResultOf(ops.WithoutHost(&exit))
	if err == nil && exit.ExitCode == 0 && !exit.TimedOut {
		return event{Type: "execution_complete", ExecutionTime: &ms, ExitCode: new(int), DurationMS: &ms, Wolffia: all}
	}
	code := exit.ExitCode
	failed := &errorEvent{Name: "CommandExecError", Value: strconv.Itoa(code), Traceback: []string{fmt.Sprintf("exit status %d", code)}}
	switch {
	case err != nil:
		f, _ := faultOf(err)
		return event{Type: "error", Error: &errorEvent{"RuntimeError", f.message, []string{f.message}}, DurationMS: &ms}
	case exit.TimedOut:
		code = -1
		failed.Value, failed.Traceback = "-1", []string{"signal: killed", "the command has timed out"}
	}
	failed.Traceback = append(failed.Traceback, ops.Notes(&exit)...)
	return event{Type: "error", Error: failed, ExitCode: &code, DurationMS: &ms, Wolffia: all}
}

// interrupt serves DELETE /command.
func (d *execd) interrupt(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	id := r.URL.Query().Get("id")
	if id == "" {
		return &fault{http.StatusBadRequest, "MISSING_QUERY", "id: the query has no id of a command"}
	}
	if err := in.Interrupt(r.Context(), id); err != nil {
		return unknownCommand(err)
	}
	d.empty(w, http.StatusOK)
	return nil
}

// unknownCommand gives the error for an unknown command its code.
func unknownCommand(err error) error {
	if runtime.Class(err) == runtime.ErrNotFound {
		return &fault{http.StatusNotFound, "INVALID_REQUEST_BODY", "command not found: " + err.Error()}
	}
	return err
}

// aboutCommand serves GET /command/status/ID, GET /command/ID/logs and GET /command/ID/resume,
// whose patterns [http.ServeMux] cannot tell apart.
func (d *execd) aboutCommand(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	command, part := r.PathValue("command"), r.PathValue("part")
	switch {
	case command == "status":
		return d.status(w, r, in, part)
	case part == "logs":
		return d.logs(w, r, in, command)
	case part == "resume":
		return d.resumeCommand(w, r, in, command)
	}
	return errUnknown
}

// A commandReply says how a command is doing.
type commandReply struct {
	ID         string     `json:"id"`
	Content    string     `json:"content"`
	Running    bool       `json:"running"`
	ExitCode   *int       `json:"exit_code,omitempty"`
	Error      string     `json:"error,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// status replies with the status of a command.
func (d *execd) status(w http.ResponseWriter, r *http.Request, in *service.Inside, id string) error {
	s, failed, err := in.Status(r.Context(), id)
	if err != nil {
		return unknownCommand(err)
	}
	reply := commandReply{s.ID, s.Command, s.EndedAt.IsZero(), s.ExitCode, failed, s.StartedAt.UTC(), nil}
	if !reply.Running {
		finished := s.EndedAt.UTC()
		reply.FinishedAt = &finished
	}
	d.opts.JSON(w, http.StatusOK, reply)
	return nil
}

// The headers of the reply to GET /command/{command}/logs: where the next request goes on,
// and how many bytes before the reply are lost.
const (
	cursorHeader  = "EXECD-COMMANDS-TAIL-CURSOR"
	droppedHeader = "Wolffia-Dropped-Bytes"
)

// logs replies with the output of a background command.
func (d *execd) logs(w http.ResponseWriter, r *http.Request, in *service.Inside, id string) error {
	cursor, err := offset(r, "cursor", "an offset in bytes")
	if err != nil {
		return err
	}
	output, end, dropped, err := in.Logs(r.Context(), id, cursor)
	if err != nil {
		return unknownCommand(err)
	}
	d.patience(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set(cursorHeader, strconv.FormatUint(end, 10))
	if dropped > 0 {
		w.Header().Set(droppedHeader, strconv.FormatUint(dropped, 10))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(output)))
	_, _ = w.Write(output)
	return nil
}

type sessionRequest struct {
	Cwd string `json:"cwd"`
}

type sessionReply struct {
	ID string `json:"session_id"`
}

// createSession serves POST /session.
func (d *execd) createSession(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	var q sessionRequest
	if err := d.decode(w, r, smallBody, &q); err != nil {
		return err
	}
	name, err := in.CreateSession(r.Context(), "", q.Cwd)
	if err != nil {
		return commandFault(err)
	}
	d.opts.JSON(w, http.StatusOK, sessionReply{name})
	return nil
}

// destroySession serves DELETE /session/{session}.
func (d *execd) destroySession(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	if err := in.DestroySession(r.Context(), r.PathValue("session")); err != nil {
		return commandFault(err)
	}
	d.empty(w, http.StatusOK)
	return nil
}

// ping serves GET /ping.
func (d *execd) ping(w http.ResponseWriter, _ *http.Request, _ *service.Inside) error {
	d.empty(w, http.StatusOK)
	return nil
}
