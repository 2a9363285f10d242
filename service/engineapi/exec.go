package engineapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"sync"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service/container"
	"wolffia/service/container/view"
)

// An execution is a command in a container.
type execution struct {
	id, container string
	ask           container.Exec // once started as far as inspect shows it
	started       bool
	process       runtime.Process // nil: it does not run
	code          *int            // nil: it has not ended
}

// executions are the commands that are known: the oldest that do not run are forgotten.
type executions struct {
	mu  sync.Mutex
	all []*execution // oldest first; guarded by mu, as what they have but their ids
}

const (
	maxExecs     = 1000     // how many are known
	maxExecsSize = 16 << 20 // bytes of those that are not started
	maxShown     = 4 << 10  // bytes of a command that was started
	perText      = 16       // bytes of a text itself
)

// size returns how many bytes the execution takes.
func (e *execution) size() (n int) {
	for _, s := range slices.Concat(e.ask.Cmd, e.ask.Env, []string{e.ask.User, e.ask.WorkingDir}) {
		n += perText + len(s)
	}
	return n
}

// runs reports whether the execution was started, and has not ended.
func (e *execution) runs() bool { return e.started && e.code == nil }

// add adds an execution.
func (x *executions) add(e *execution) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, total := len(x.all), e.size()
	for _, one := range x.all {
		total += one.size()
	}
	x.all = slices.DeleteFunc(x.all, func(old *execution) bool {
		if old.runs() || n < maxExecs && total <= maxExecsSize {
			return false
		}
		n, total = n-1, total-old.size()
		return true
	})
	if n >= maxExecs {
		return runtime.Errorf(runtime.ErrUnavailable, "%d commands run: wait until one has ended", n)
	}
	x.all = append(x.all, e)
	return nil
}

// find returns the execution with an id.
func (x *executions) find(id string) (*execution, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := slices.IndexFunc(x.all, func(e *execution) bool { return e.id == id }); n >= 0 {
		return x.all[n], nil
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "No such exec instance: %s", id)
}

// begin returns what an execution asks for, which it then knows only as far as inspect shows it.
func (x *executions) begin(e *execution) (container.Exec, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ask := e.ask
	if e.started {
		return ask, runtime.Errorf(runtime.ErrConflict, "exec %s was started already", e.id)
	}
	e.started, e.ask.Env, e.ask.WorkingDir = true, nil, ""
	for size, i := 0, 0; i < len(ask.Cmd); i++ {
		if size += perText + len(ask.Cmd[i]); size > maxShown {
			e.ask.Cmd = append(slices.Clone(ask.Cmd[:i]), "...")
			break
		}
	}
	return ask, nil
}

// note notes that an execution runs, or how it has ended: with the result, or with err.
func (x *executions) note(e *execution, p runtime.Process, r *runtime.Result, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.process = p; p == nil {
		e.code = new(container.CodeOf(r, err))
	}
}

func createExec(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	e := &execution{id: hex.EncodeToString(random[:]), container: c.ID()}
	if err := r.decode(&e.ask); err != nil {
		return nil, err
	}
	e.ask.Container, e.ask.DetachKeys = "", "" // nothing here reads them
	if len(e.ask.Cmd) == 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "No exec command specified")
	}
	if _, err := c.Running(ctx); err != nil {
		return nil, err
	}
	return created{view.Object{"Id": e.id}}, h.execs.add(e)
}

func startExec(h *Handler, _ context.Context, r *request) (any, error) {
	e, err := h.execs.find(r.ref)
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
	c, err := h.engine.Get(ctx, e.container)
	if err != nil {
		return nil, err
	}
	in, err := c.Running(ctx)
	if err != nil {
		return nil, err
	}
	ask, err := h.execs.begin(e)
	if err != nil {
		return nil, err
	}
	cmd := ask.Command()
	if cmd.TTY {
		if cmd.Rows, cmd.Cols = 24, 80; len(how.ConsoleSize) == 2 {
			cmd.Rows, cmd.Cols = how.ConsoleSize[0], how.ConsoleSize[1]
		}
	}
	begin := func() (p runtime.Process, err error) {
		if p, err = in.Start(ctx, cmd); err != nil {
			err = container.StartError(err)
		}
		h.execs.note(e, p, nil, err)
		return p, err
	}
	if how.Detach {
		cmd.OpenStdin = false
		p, err := begin()
		if err != nil {
			return nil, err
		}
		go func() { _ = h.follow(ctx, e, p, io.Discard, io.Discard) }() // ends with the command, or with Close
		r.w.WriteHeader(http.StatusOK)
		return done{}, nil
	}
	conn, end, err := r.hijack(ctx)
	if err != nil {
		h.execs.note(e, nil, &runtime.Result{ExitCode: 126}, nil)
		return nil, err
	}
	defer end()
	m := &mux{w: conn}
	out := func(n byte, attached bool) io.Writer {
		switch {
		case ask.Tty:
			return conn
		case !attached:
			return io.Discard
		}
		return m.stream(n)
	}
	p, err := begin()
	if err == nil {
		if cmd.OpenStdin {
			go func() { // ends with the client, or the command
				_, _ = io.Copy(p.Stdin(), conn)
				_ = p.Stdin().Close()
			}()
		}
		err = h.follow(ctx, e, p, out(1, ask.AttachStdout), out(2, ask.AttachStderr))
	}
	if err != nil { // the exit code tells the client
		_, _ = out(2, ask.AttachStderr).Write([]byte(err.Error() + "\r\n"))
	}
	return done{}, nil
}

// follow follows an execution to its end, which its client does not change. The error is why it
// has no exit code of its own.
func (h *Handler) follow(ctx context.Context, e *execution, p runtime.Process, stdout, stderr io.Writer) error {
	lasting := func(w io.Writer) ops.Sink {
		return func(r io.Reader) error {
			_, _ = io.Copy(w, r)
			_, err := io.Copy(io.Discard, r)
			return err
		}
	}
	result, err := ops.Follow(ctx, p, lasting(stdout), lasting(stderr))
	err = container.StartError(err)
	h.execs.note(e, nil, &result, err)
	return err
}

func inspectExec(h *Handler, _ context.Context, r *request) (any, error) {
	e, err := h.execs.find(r.ref)
	if err != nil {
		return nil, err
	}
	h.execs.mu.Lock()
	defer h.execs.mu.Unlock()
	return view.Object{
		"ID": e.id, "Running": e.runs(), "ExitCode": e.code, "ContainerID": e.container,
		"OpenStdin": e.ask.AttachStdin, "OpenStdout": e.ask.AttachStdout, "OpenStderr": e.ask.AttachStderr,
		"CanRemove": false, "DetachKeys": "", "Pid": 0,
		"ProcessConfig": view.Object{
			"tty": e.ask.Tty, "entrypoint": e.ask.Cmd[0], "arguments": e.ask.Cmd[1:], "privileged": false,
			"user": e.ask.User,
		},
	}, nil
}

func resizeExec(h *Handler, _ context.Context, r *request) (any, error) {
	rows, cols, err := r.size()
	if err != nil {
		return nil, err
	}
	e, err := h.execs.find(r.ref)
	if err != nil {
		return nil, err
	}
	h.execs.mu.Lock()
	p := e.process
	h.execs.mu.Unlock()
	if p == nil || !e.ask.Tty {
		return nil, runtime.Errorf(runtime.ErrConflict, "exec %s is not running at a terminal", e.id)
	}
	return created{view.Object{}}, p.Resize(rows, cols)
}
