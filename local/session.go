package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

var _ runtime.SessionManager = (*Runtime)(nil)

// sessionError gives what a guest says of a session its class.
func sessionError(err error) error {
	var failed *client.StartError
	if !errors.As(err, &failed) {
		return err
	}
	for class, of := range map[string]error{
		wire.ClassInvalid: runtime.ErrInvalid, wire.ClassNotFound: runtime.ErrNotFound, wire.ClassExists: runtime.ErrExists,
		wire.ClassConflict: runtime.ErrConflict, wire.ClassUnavailable: runtime.ErrUnavailable, wire.ClassUnsupported: runtime.ErrUnsupported,
	} {
		if failed.Class == class {
			return runtime.Errorf(of, "%s", failed.Message)
		}
	}
	return &runtime.StartError{Code: failed.Code, Message: failed.Message}
}

// talk asks a sandbox's guest about sessions.
func (r *Runtime) talk(sandboxID string, ask func(*client.Conn, *statedir.Config) error) (*statedir.Box, error) {
	box, c, err := r.find(sandboxID)
	if err != nil {
		return nil, err
	}
	conn, err := r.conn(box)
	if err != nil {
		return nil, err
	}
	err = ask(conn, c)
	if long := tooLong(err); long != nil {
		return nil, long
	}
	var failed *client.StartError
	if err != nil && !errors.As(err, &failed) && (conn.Err() != nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)) {
		return nil, lost(box, err)
	}
	return box, orOver(box, sessionError(err)) // it may be about to end
}

// splitSession takes a session's id apart.
func splitSession(id string) (sandbox, name string, err error) {
	sandbox, name, ok := strings.Cut(id, "/")
	if !ok || sandbox == "" || wire.CheckSessionName(name) != nil {
		return "", "", runtime.Errorf(runtime.ErrNotFound, "no session %q: a session's id is SANDBOX/NAME", id)
	}
	return sandbox, name, nil
}

// CreateSession implements [runtime.SessionManager].
func (r *Runtime) CreateSession(ctx context.Context, sandboxID string, config *runtime.SessionConfig) (*runtime.Session, error) {
	if config == nil {
		config = new(runtime.SessionConfig)
	}
	name := config.Name
	if name == "" {
		name = strings.ToLower(rand.Text()[:12])
	}
	if err := wire.CheckSessionName(name); err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	// A guest that lies keeps nobody.
	silent := runtime.Errorf(runtime.ErrUnavailable, "session %s: the sandbox has not made it in %v", name, sessionLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, sessionLimit, silent)
	defer cancel()
	var info wire.SessionInfo
	box, err := r.talk(sandboxID, func(conn *client.Conn, c *statedir.Config) error {
		if err := conn.CreateSession(ctx, newSession(c, name, config)); err != nil {
			return err
		}
		var err error
		info, err = conn.Session(ctx, name)
		return err
	})
	if err != nil && context.Cause(ctx) == silent {
		err = silent
	}
	if err != nil {
		return nil, err
	}
	return session(box, &info), nil
}

// sessionLimit is how long PID 1 may take to make a session: its shell has 10 s to answer.
const sessionLimit = time.Minute

// newSession is the request for a session called name.
func newSession(c *statedir.Config, name string, config *runtime.SessionConfig) *wire.StartRequest {
	rows, cols := config.Rows, config.Cols
	if rows == 0 || cols == 0 {
		rows, cols = 24, 80
	}
	return &wire.StartRequest{
		Env: environment(c, &runtime.ProcessSpec{Env: config.Env}), Dir: cwd(c, config.Cwd), Rows: rows, Cols: cols,
		Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: name, Shell: config.Shell, RC: config.RC},
	}
}

// session is what the guest says of one. What is in it is the sandbox's word.
func session(box *statedir.Box, info *wire.SessionInfo) *runtime.Session {
	return &runtime.Session{
		ID: box.ID() + "/" + info.Name, SandboxID: box.ID(), Name: info.Name, Shell: info.Shell, PID: info.PID,
		State: runtime.SessionState(info.State), Cwd: string(info.Cwd),
		CreatedAt: time.UnixMilli(info.CreatedMS), UsedAt: time.UnixMilli(info.UsedMS),
		Commands: info.Commands, Waiting: info.Waiting, Jobs: info.Jobs, Restarts: info.Restarts,
	}
}

// DestroySession implements [runtime.SessionManager].
func (r *Runtime) DestroySession(ctx context.Context, sessionID string) error {
	sandbox, name, err := splitSession(sessionID)
	if err != nil {
		return err
	}
	_, err = r.talk(sandbox, func(conn *client.Conn, _ *statedir.Config) error {
		return conn.DestroySession(ctx, name)
	})
	return err
}

// GetSession implements [runtime.SessionManager].
func (r *Runtime) GetSession(ctx context.Context, sessionID string) (*runtime.Session, error) {
	sandbox, name, err := splitSession(sessionID)
	if err != nil {
		return nil, err
	}
	var info wire.SessionInfo
	box, err := r.talk(sandbox, func(conn *client.Conn, _ *statedir.Config) (err error) {
		info, err = conn.Session(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return session(box, &info), nil
}

// ListSessions implements [runtime.SessionManager].
func (r *Runtime) ListSessions(ctx context.Context, sandboxID string) ([]*runtime.Session, error) {
	var infos []wire.SessionInfo
	box, err := r.talk(sandboxID, func(conn *client.Conn, _ *statedir.Config) (err error) {
		infos, err = conn.Sessions(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]*runtime.Session, len(infos))
	for i := range infos {
		all[i] = session(box, &infos[i])
	}
	return all, nil
}

// SessionExec implements [runtime.SessionManager].
func (r *Runtime) SessionExec(ctx context.Context, sessionID string, req *runtime.SessionExecRequest) (*runtime.ExecResult, error) {
	sandbox, spec, err := sessionSpec(sessionID, req)
	if err != nil {
		return nil, err
	}
	return r.exec(ctx, sandbox, spec, req.Stdin, req.MaxOutput, req.TailOutput)
}

// SessionExecStream implements [runtime.SessionManager].
func (r *Runtime) SessionExecStream(ctx context.Context, sessionID string, req *runtime.SessionExecRequest, output chan<- []byte) error {
	sandbox, spec, err := sessionSpec(sessionID, req)
	if err != nil {
		close(output)
		return err
	}
	if spec.Operation != "" {
		close(output)
		return runtime.Errorf(runtime.ErrUnsupported, "operation %q: its output cannot be streamed", spec.Operation)
	}
	spec.Merge = true
	return r.stream(ctx, sandbox, spec, req.Stdin, output)
}

// sessionSpec is the process that req asks for.
func sessionSpec(sessionID string, req *runtime.SessionExecRequest) (sandbox string, spec *runtime.ProcessSpec, err error) {
	sandbox, name, err := splitSession(sessionID)
	return sandbox, &runtime.ProcessSpec{
		Command: []string{req.Command}, Session: name, NoWait: req.NoWait, Operation: req.Operation, Env: req.Env, Cwd: req.Cwd,
		Stdin: req.Stdin != nil, Timeout: req.Timeout,
	}, err
}

// inSession makes a request for a process one for a command in a session.
func inSession(req *wire.StartRequest, spec *runtime.ProcessSpec) error {
	if err := wire.CheckSessionName(spec.Session); err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	if len(spec.Command) != 1 {
		return runtime.Errorf(runtime.ErrInvalid, "a session evaluates one text, not %d", len(spec.Command))
	}
	if strings.ContainsRune(spec.Command[0], 0) {
		return runtime.Errorf(runtime.ErrInvalid, "the command contains a NUL, which no shell can have")
	}
	if spec.Operation != "" && wire.CheckSessionName(spec.Operation) != nil {
		return runtime.Errorf(runtime.ErrInvalid, "operation %q: it must be up to %d letters, digits and, not first, any of ._-", spec.Operation, wire.MaxSessionName)
	}
	req.Session = &wire.SessionRequest{
		Op: wire.SessionExec, Name: spec.Session, NoWait: spec.NoWait, Job: spec.Operation, Keep: spec.Operation != "",
	}
	for k, v := range spec.Env {
		req.Env = append(req.Env, k+"="+v)
	}
	slices.Sort(req.Env)
	if spec.Cwd != "" && !path.IsAbs(spec.Cwd) {
		return runtime.Errorf(runtime.ErrInvalid, "working directory %q: in a session it must be absolute", spec.Cwd)
	}
	req.Dir = spec.Cwd
	return nil
}

// sessionStatus is what the guest says became of a session.
func sessionStatus(s *wire.ExitStatus) *runtime.SessionStatus {
	return &runtime.SessionStatus{
		Cwd: string(s.Cwd), Ended: s.SessionEnded, Restored: s.Restored, ShellCode: s.ShellCode, StatusLost: s.StatusLost,
	}
}

// ensureSession makes a session that is not there.
func (r *Runtime) ensureSession(ctx context.Context, sandboxID, name string) error {
	_, err := r.CreateSession(ctx, sandboxID, &runtime.SessionConfig{Name: name})
	if errors.Is(err, runtime.ErrExists) {
		return nil // somebody else was faster
	}
	if err != nil {
		return fmt.Errorf("session %s: %w", name, err)
	}
	return nil
}
