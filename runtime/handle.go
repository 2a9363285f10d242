package runtime

import (
	"context"
	"errors"
	"time"
)

// A Handle is a handle on one sandbox: the calls of its runtime without the id. It holds no
// resource, so it is not closed, and it may be copied and used concurrently. Several Handles may
// refer to one sandbox.
type Handle struct {
	rt RuntimeWithExecutor
	id string
}

// Open returns a handle on the sandbox that ref names: an id, a name, or a prefix of an id.
// The sandbox need not run.
func Open(ctx context.Context, rt RuntimeWithExecutor, ref string) (*Handle, error) {
	s, err := rt.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &Handle{rt, s.ID}, nil
}

// undoLimit is how long Launch may take to destroy a sandbox that did not start.
const undoLimit = 30 * time.Second

// Launch creates and starts a sandbox. If it fails, nothing is left. The caller destroys
// the sandbox, unless it is to outlive the caller.
func Launch(ctx context.Context, rt RuntimeWithExecutor, config *SandboxConfig) (*Handle, error) {
	s, err := rt.Create(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := rt.Start(ctx, s.ID); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return nil, errors.Join(err, rt.Destroy(ctx, s.ID))
	}
	return &Handle{rt, s.ID}, nil
}

// ID returns the sandbox's id.
func (h *Handle) ID() string { return h.id }

// Sandbox returns what is known of the sandbox now.
func (h *Handle) Sandbox(ctx context.Context) (*Sandbox, error) { return h.rt.Get(ctx, h.id) }

// Exec runs a program with arguments, without a shell, and returns its output; see
// [Executor]. That the program fails is not an error.
func (h *Handle) Exec(ctx context.Context, command ...string) (*Result, error) {
	return h.rt.Exec(ctx, h.id, &Command{Command: command})
}

// Do is Exec with all that a request can say.
func (h *Handle) Do(ctx context.Context, cmd *Command) (*Result, error) {
	return h.rt.Exec(ctx, h.id, cmd)
}

// StartProcess starts a process with streams of its own, or a terminal. The caller closes it.
func (h *Handle) StartProcess(ctx context.Context, cmd *Command) (Process, error) {
	return h.rt.StartProcess(ctx, h.id, cmd)
}

// Session returns a handle on the session with this name. It makes the session, with the
// default configuration, unless it exists. A runtime without sessions is [ErrUnsupported].
func (h *Handle) Session(ctx context.Context, name string) (*Shell, error) {
	m, ok := h.rt.(SessionManager)
	if !ok {
		return nil, Errorf(ErrUnsupported, "runtime %s has no sessions", h.rt.Name())
	}
	s := &Shell{m, SessionIn(h.id, name)}
	if _, err := m.CreateSession(ctx, h.id, &SessionConfig{Name: name}); err != nil && !errors.Is(err, ErrExists) {
		return nil, err
	}
	return s, nil
}

// Start starts the sandbox, which is created, stopped or dead.
func (h *Handle) Start(ctx context.Context) error { return h.rt.Start(ctx, h.id) }

// Stop ends all processes of the sandbox, and keeps it.
func (h *Handle) Stop(ctx context.Context) error { return h.rt.Stop(ctx, h.id) }

// Pause has all processes of the sandbox stand still until Resume.
func (h *Handle) Pause(ctx context.Context) error { return h.rt.Pause(ctx, h.id) }

// Resume has the paused sandbox run on.
func (h *Handle) Resume(ctx context.Context) error { return h.rt.Resume(ctx, h.id) }

// Destroy stops the sandbox and releases everything that it has.
func (h *Handle) Destroy(ctx context.Context) error { return h.rt.Destroy(ctx, h.id) }

// A Shell is a handle on a session of a sandbox. As a [Box], it holds nothing.
type Shell struct {
	rt SessionManager
	id SessionID
}

// ID returns the session's id.
func (s *Shell) ID() SessionID { return s.id }

// Session returns what is known of the session now.
func (s *Shell) Session(ctx context.Context) (*Session, error) { return s.rt.GetSession(ctx, s.id) }

// Exec evaluates a text in the session's shell and returns its output; see
// [SessionManager]. That the text fails is not an error.
func (s *Shell) Exec(ctx context.Context, text string) (*Result, error) {
	return s.rt.SessionExec(ctx, s.id, &Command{Command: []string{text}})
}

// Do is Exec with all that a request can say.
func (s *Shell) Do(ctx context.Context, cmd *Command) (*Result, error) {
	return s.rt.SessionExec(ctx, s.id, cmd)
}

// Destroy ends the session and all that it has started.
func (s *Shell) Destroy(ctx context.Context) error { return s.rt.DestroySession(ctx, s.id) }
