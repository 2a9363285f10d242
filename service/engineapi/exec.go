package engineapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/container"
)

// An execution is a command in a container.
type execution struct {
	id, container string
	ask           container.Exec
	process       runtime.Process // nil: it does not run; guarded by Handler.mu, as what follows
	started       bool
	ended         bool
	code          int
}

// maxExecs is how many executions are known: the oldest that have ended are forgotten.
const maxExecs = 1000

func createExec(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	e := new(execution)
	if err := r.decode(&e.ask); err != nil {
		return nil, err
	}
	if len(e.ask.Cmd) == 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "No exec command specified")
	}
	if _, err := h.engine.Running(ctx, caller, c); err != nil {
		return nil, err
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	e.id, e.container = hex.EncodeToString(random[:]), c.ID()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := 0; len(h.order) >= maxExecs; i++ {
		if i == len(h.order) {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "%d commands run, or were made and not started",
				maxExecs)
		}
		if old := h.execs[h.order[i]]; old.ended || !old.started {
			delete(h.execs, old.id)
			h.order = append(h.order[:i], h.order[i+1:]...)
			break
		}
	}
	h.execs[e.id], h.order = e, append(h.order, e.id)
	return created{map[string]string{"Id": e.id}}, nil
}

// exec returns the execution of a request.
func (h *Handler) exec(r *request) (*execution, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.execs[r.ref]; e != nil {
		return e, nil
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "No such exec instance: %s", r.ref)
}

// note changes an execution.
func (h *Handler) note(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func startExec(h *Handler, _ context.Context, r *request) (any, error) {
	e, err := h.exec(r)
	if err != nil {
		return nil, err
	}
	var how struct {
		Detach, Tty bool
		ConsoleSize []uint16
	}
	if err := r.decode(&how); err != nil {
		return nil, err
	}
	ctx := h.ctx // a command outlives the client that has started it
	c, err := h.engine.Get(ctx, caller, e.container)
	if err != nil {
		return nil, err
	}
	in, err := h.engine.Running(ctx, caller, c)
	if err != nil {
		return nil, err
	}
	again := false
	h.note(func() { again, e.started = e.started, true })
	if again {
		return nil, runtime.Errorf(runtime.ErrConflict, "exec %s was started already", e.id)
	}
	cmd := e.ask.Command()
	cmd.OpenStdin = cmd.OpenStdin && !how.Detach
	if cmd.TTY {
		if cmd.Rows, cmd.Cols = 24, 80; len(how.ConsoleSize) == 2 {
			cmd.Rows, cmd.Cols = how.ConsoleSize[0], how.ConsoleSize[1]
		}
	}
	if how.Detach {
		p, err := h.run(ctx, e, in, cmd)
		if err != nil {
			return nil, err
		}
		go func() { _ = h.follow(ctx, e, p, discard, discard) }() // ends with the command, or with Close
		r.w.WriteHeader(http.StatusOK)
		return done{}, nil
	}
	conn, end, err := r.hijack(ctx)
	if err != nil {
		h.note(func() { e.ended, e.code = true, 126 })
		return nil, err
	}
	defer end()
	m := &mux{w: conn}
	p, err := h.run(ctx, e, in, cmd)
	if err == nil && cmd.OpenStdin {
		go func() { // ends with the client, or the command
			_, _ = io.Copy(p.Stdin(), conn)
			_ = p.Stdin().Close()
		}()
	}
	if err == nil {
		err = h.follow(ctx, e, p, lasting(e.out(m, 1)), lasting(e.out(m, 2)))
	}
	if err != nil { // the exit code tells the client
		_, _ = e.out(m, 2).Write([]byte(err.Error() + "\r\n"))
	}
	return done{}, nil
}

// run starts the command of an execution.
func (h *Handler) run(ctx context.Context, e *execution, in *service.Inside,
	cmd *runtime.Command,
) (runtime.Process, error) {
	p, err := in.Start(ctx, cmd)
	err = container.StartError(err)
	h.note(func() { e.process, e.ended, e.code = p, err != nil, container.StartCode(err) })
	return p, err
}

var discard = ops.To(io.Discard)

// out returns where a stream goes.
func (e *execution) out(m *mux, n byte) io.Writer {
	switch {
	case e.ask.Tty:
		return m.w
	case n == 1 && !e.ask.AttachStdout || n == 2 && !e.ask.AttachStderr:
		return io.Discard
	}
	return m.stream(n)
}

// lasting is a sink that reads on when the client has gone.
func lasting(w io.Writer) ops.Sink {
	return func(r io.Reader) error {
		_, _ = io.Copy(w, r)
		_, err := io.Copy(io.Discard, r)
		return err
	}
}

// follow follows an execution to its end. The error is why it has no exit code of its own.
func (h *Handler) follow(ctx context.Context, e *execution, p runtime.Process, stdout, stderr ops.Sink) error {
	result, err := ops.Follow(ctx, p, stdout, stderr)
	err = container.StartError(err)
	code := result.ExitCode
	switch {
	case err != nil:
		code = container.StartCode(err)
	case result.Signal != 0:
		code = 128 + int(result.Signal)
	}
	h.note(func() { e.process, e.ended, e.code = nil, true, code })
	return err
}

func inspectExec(h *Handler, _ context.Context, r *request) (any, error) {
	e, err := h.exec(r)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var code *int
	if e.ended {
		code = new(e.code)
	}
	return map[string]any{
		"ID": e.id, "Running": e.started && !e.ended, "ExitCode": code, "ContainerID": e.container,
		"OpenStdin": e.ask.AttachStdin, "OpenStdout": e.ask.AttachStdout,
		"OpenStderr": e.ask.AttachStderr, "CanRemove": false, "DetachKeys": "", "Pid": 0,
		"ProcessConfig": map[string]any{
			"tty": e.ask.Tty, "entrypoint": e.ask.Cmd[0],
			"arguments": e.ask.Cmd[1:], "privileged": false, "user": e.ask.User,
		},
	}, nil
}

func resizeExec(h *Handler, _ context.Context, r *request) (any, error) {
	rows, cols, err := r.size()
	if err != nil {
		return nil, err
	}
	e, err := h.exec(r)
	if err != nil {
		return nil, err
	}
	var p runtime.Process
	h.note(func() { p = e.process })
	if p == nil || !e.ask.Tty {
		return nil, runtime.Errorf(runtime.ErrConflict, "exec %s is not running at a terminal", e.id)
	}
	return created{map[string]string{}}, p.Resize(rows, cols)
}
