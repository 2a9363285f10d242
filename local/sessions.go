package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/local/conns"
	"wolffia/local/defaults"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

// sessions is the part of a Runtime that keeps shells in sandboxes. All it knows of them is
// the guest's word.
type sessions struct{ *executor }

// sessionLimit is how long PID 1 may take to make a session. Its shell has 10 s to answer.
const sessionLimit = time.Minute

// CreateSession implements [runtime.SessionManager].
func (s *sessions) CreateSession(ctx context.Context, sandboxID string, config *runtime.SessionConfig) (*runtime.Session, error) {
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
	if err := runtime.CheckEnv(config.Env); err != nil {
		return nil, err
	}
	silent := runtime.Errorf(runtime.ErrUnavailable, "session %s: the sandbox has not made it in %v", name, sessionLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, sessionLimit, silent)
	defer cancel()
	info, rec, err := ask(ctx, s, sandboxID, func(conn *client.Conn, c *statedir.Config) (wire.SessionInfo, error) {
		if err := checkUser(c, config.User); err != nil {
			return wire.SessionInfo{}, err
		}
		req := newSession(c, name, config)
		req.Umask = s.umask
		return conn.CreateSession(ctx, req)
	})
	if err != nil && context.Cause(ctx) == silent {
		err = silent
	}
	if err != nil {
		return nil, err
	}
	return session(rec, &info), nil
}

// newSession returns the request for a session called name.
func newSession(c *statedir.Config, name string, config *runtime.SessionConfig) *wire.StartRequest {
	rows, cols := config.Rows, config.Cols
	if rows == 0 || cols == 0 {
		rows, cols = 24, 80
	}
	var program []string
	if config.Program != "" {
		program = []string{config.Program}
	}
	return &wire.StartRequest{
		Args: program,
		Env:  defaults.Environment(c, config.Env), Dir: cwd(c, config.Cwd), Rows: rows, Cols: cols,
		Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: name, Shell: config.Shell, RC: config.RC, User: userOf(cmp.Or(config.User, c.RunAs))},
	}
}

// sessionStart returns what the shell of a session of the default configuration starts
// with.
func sessionStart(c *statedir.Config) wire.SessionStart {
	return wire.SessionStart{Env: defaults.Environment(c, nil), Dir: cwd(c, "")}
}

// Left returns the home directory of a running sandbox, and what it has there and loses with its
// end: nothing of a home that is a volume or a mount. An earlier version's sandbox is
// [runtime.ErrInvalid].
func (s *sessions) Left(ctx context.Context, sandboxID string) (home string, left []wire.LeftPath, err error) {
	left, _, err = ask(ctx, s, sandboxID, func(conn *client.Conn, c *statedir.Config) ([]wire.LeftPath, error) {
		home = cmp.Or(c.Env["HOME"], rootfs.Home(c))
		if slices.ContainsFunc(c.Mounts, func(m runtime.Mount) bool { return m.Target == home }) ||
			slices.ContainsFunc(c.Volumes, func(v runtime.VolumeMount) bool { return v.Target == home }) {
			return nil, nil
		}
		return conn.Left(ctx, home)
	})
	return home, left, err
}

// DestroySession implements [runtime.SessionManager].
func (s *sessions) DestroySession(ctx context.Context, sessionID runtime.SessionID) error {
	return s.tell(ctx, sessionID, func(conn *client.Conn, name string) error { return conn.DestroySession(ctx, name) })
}

// GetSession implements [runtime.SessionManager].
func (s *sessions) GetSession(ctx context.Context, sessionID runtime.SessionID) (*runtime.Session, error) {
	info, rec, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, name string) (wire.SessionInfo, error) {
		return conn.Session(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return session(rec, &info), nil
}

// ListSessions implements [runtime.SessionManager].
func (s *sessions) ListSessions(ctx context.Context, sandboxID string) ([]*runtime.Session, error) {
	infos, rec, err := ask(ctx, s, sandboxID, func(conn *client.Conn, _ *statedir.Config) ([]wire.SessionInfo, error) {
		return conn.Sessions(ctx)
	})
	if err != nil {
		return nil, err
	}
	all := make([]*runtime.Session, len(infos))
	for i := range infos {
		all[i] = session(rec, &infos[i])
	}
	return all, nil
}

// session returns what the guest says of a session.
func session(rec *statedir.Record, info *wire.SessionInfo) *runtime.Session {
	s := &runtime.Session{
		ID: runtime.SessionIn(rec.ID(), info.Name), SandboxID: rec.ID(), Name: info.Name, Shell: info.Shell, PID: info.PID,
		State: runtime.SessionState(info.State), Cwd: string(info.Cwd),
		CreatedAt: time.UnixMilli(info.CreatedMS), UsedAt: time.UnixMilli(info.UsedMS),
		Commands: info.Commands, Waiting: info.Waiting, Jobs: info.Jobs, Restarts: info.Restarts,
	}
	if t := info.Terminal; t != nil {
		s.Terminal = &runtime.TerminalState{Start: t.Start, End: t.End, Viewers: t.Viewers}
	}
	return s
}

// SessionExec implements [runtime.SessionManager].
func (s *sessions) SessionExec(ctx context.Context, sessionID runtime.SessionID, cmd *runtime.Command) (*runtime.Result, error) {
	sandbox, cmd, err := inSession(sessionID, cmd)
	if err != nil {
		return nil, err
	}
	return s.Exec(ctx, sandbox, cmd)
}

// SessionExecStream implements [runtime.SessionManager].
func (s *sessions) SessionExecStream(ctx context.Context, sessionID runtime.SessionID, cmd *runtime.Command, output chan<- []byte) error {
	sandbox, cmd, err := inSession(sessionID, cmd)
	if err != nil {
		close(output)
		return err
	}
	return s.ExecStream(ctx, sandbox, cmd, output)
}

// CancelOperation implements [runtime.SessionManager].
func (s *sessions) CancelOperation(ctx context.Context, sessionID runtime.SessionID, operation string) error {
	return s.tell(ctx, sessionID, func(conn *client.Conn, name string) error { return conn.Cancel(ctx, name, operation) })
}

// inSession returns the sandbox of a session, and the command as one for it.
func inSession(id runtime.SessionID, cmd *runtime.Command) (sandbox string, in *runtime.Command, err error) {
	own := *cmd
	sandbox, own.Session, err = splitSession(id)
	return sandbox, &own, err
}

// evaluation returns what makes a request for a process one for a text in a session; nil if the
// command is for none. With an operation the text outlives this call. With Create,
// [executor.command] completes Create.
func evaluation(cmd *runtime.Command) (*wire.SessionRequest, error) {
	if cmd.Session == "" {
		return nil, nil
	}
	if err := wire.CheckSessionName(cmd.Session); err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	switch {
	case len(cmd.Command) != 1:
		return nil, runtime.Errorf(runtime.ErrInvalid, "a session evaluates one text, not %d", len(cmd.Command))
	case cmd.Operation != "" && wire.CheckSessionName(cmd.Operation) != nil:
		return nil, runtime.Errorf(runtime.ErrInvalid, "operation %q: it must be up to %d letters, digits and, not first, any of ._-", cmd.Operation, wire.MaxSessionName)
	case cmd.Cwd != "" && !path.IsAbs(cmd.Cwd):
		return nil, runtime.Errorf(runtime.ErrInvalid, "working directory %q: in a session it must be absolute", cmd.Cwd)
	}
	r := &wire.SessionRequest{Op: wire.SessionExec, Name: cmd.Session, NoWait: cmd.NoWait, Job: cmd.Operation, Keep: cmd.Operation != ""}
	if cmd.Create {
		r.Create = new(wire.SessionStart)
	}
	return r, nil
}

// splitSession returns the parts of a session's id, or an error if it cannot be one.
func splitSession(id runtime.SessionID) (sandbox, name string, err error) {
	sandbox, name, ok := id.Split()
	if !ok || sandbox == "" || wire.CheckSessionName(name) != nil {
		return "", "", runtime.Errorf(runtime.ErrNotFound, "no session %q: a session's id is SANDBOX/NAME", id)
	}
	return sandbox, name, nil
}

// ask calls question with a connection to a sandbox's guest, and explains its error.
func ask[T any](ctx context.Context, s *sessions, sandboxID string, question func(*client.Conn, *statedir.Config) (T, error)) (answer T, rec *statedir.Record, err error) {
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return answer, nil, err
	}
	conn, err := s.conns.To(ctx, rec)
	if err != nil {
		return answer, nil, err
	}
	answer, err = question(conn, c)
	if long := tooLong(err); long != nil {
		return answer, nil, long
	}
	if err != nil && !errors.As(err, new(*client.StartError)) && (conn.Err() != nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)) {
		return answer, nil, conns.Lost(context.Background(), rec, err)
	}
	return answer, rec, conns.OrExpired(rec, guestError(err)) // the sandbox may be about to end
}

// askAbout is ask with the name of a session.
func askAbout[T any](ctx context.Context, s *sessions, sessionID runtime.SessionID, question func(conn *client.Conn, name string) (T, error)) (answer T, rec *statedir.Record, err error) {
	sandbox, name, err := splitSession(sessionID)
	if err != nil {
		return answer, nil, err
	}
	return ask(ctx, s, sandbox, func(conn *client.Conn, _ *statedir.Config) (T, error) { return question(conn, name) })
}

// tell is askAbout for a question whose only answer is its error.
func (s *sessions) tell(ctx context.Context, sessionID runtime.SessionID, what func(conn *client.Conn, name string) error) error {
	_, _, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, name string) (struct{}, error) {
		return struct{}{}, what(conn, name)
	})
	return err
}
