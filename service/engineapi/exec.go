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
)

// An execution is a command in a container.
type execution struct {
	id, container string

	mu      sync.Mutex
	ask     container.Exec  // guarded by mu, as what follows; started: as far as inspect shows it
	process runtime.Process // nil: it does not run
	started bool
	code    *int // nil: it has not ended
}

// executions are the commands that are known: the oldest that do not run are forgotten.
type executions struct {
	mu  sync.Mutex
	all []*execution // oldest first; guarded by mu
}

const (
	maxExecs     = 1000     // how many are known
	maxExecsSize = 16 << 20 // bytes of those that are not started
	maxShown     = 4 << 10  // bytes of a command that was started
	perText      = 16       // bytes of a text itself
)

// size returns how many bytes the execution takes, and whether it runs.
func (e *execution) size() (n int, runs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range slices.Concat(e.ask.Cmd, e.ask.Env, []string{e.ask.User, e.ask.WorkingDir}) {
		n += perText + len(s)
	}
	return n, e.started && e.code == nil
}

// add adds an execution.
func (x *executions) add(e *execution) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, e)
	total := 0
	for _, one := range x.all {
		n, _ := one.size()
		total += n
	}
	for i := 0; len(x.all) > maxExecs || total > maxExecsSize; {
		n, runs := x.all[i].size()
		switch {
		case x.all[i] == e:
			x.all = x.all[:i]
			return runtime.Errorf(runtime.ErrUnavailable, "%d commands run: wait until one has ended", i)
		case runs:
			i++
		default:
			x.all, total = slices.Delete(x.all, i, i+1), total-n
		}
	}
	return nil
}

// find returns the execution with an id.
func (x *executions) find(id string) (*execution, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.all {
		if e.id == id {
			return e, nil
		}
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "No such exec instance: %s", id)
}

// begin returns what the execution asks for, which it then knows only as far as inspect shows it.
func (e *execution) begin() (container.Exec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
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

// note notes that the execution runs, or the exit code with which it has ended.
func (e *execution) note(p runtime.Process, code *int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process, e.code = p, code
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
	return created{map[string]string{"Id": e.id}}, h.execs.add(e)
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
	ask, err := e.begin()
	if err != nil {
		return nil, err
	}
	cmd := ask.Command()
	if cmd.TTY {
		if cmd.Rows, cmd.Cols = 24, 80; len(how.ConsoleSize) == 2 {
			cmd.Rows, cmd.Cols = how.ConsoleSize[0], how.ConsoleSize[1]
		}
	}
	begin := func() (runtime.Process, error) {
		p, err := in.Start(ctx, cmd)
		if err = container.StartError(err); err != nil {
			e.note(nil, new(container.StartCode(err)))
			return nil, err
		}
		e.note(p, nil)
		return p, nil
	}
	if how.Detach {
		cmd.OpenStdin = false
		p, err := begin()
		if err != nil {
			return nil, err
		}
		go func() { _ = e.follow(ctx, p, io.Discard, io.Discard) }() // ends with the command, or with Close
		r.w.WriteHeader(http.StatusOK)
		return done{}, nil
	}
	conn, end, err := r.hijack(ctx)
	if err != nil {
		e.note(nil, new(126))
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
		err = e.follow(ctx, p, out(1, ask.AttachStdout), out(2, ask.AttachStderr))
	}
	if err != nil { // the exit code tells the client
		_, _ = out(2, ask.AttachStderr).Write([]byte(err.Error() + "\r\n"))
	}
	return done{}, nil
}

// follow follows an execution to its end, which its client does not change. The error is why it
// has no exit code of its own.
func (e *execution) follow(ctx context.Context, p runtime.Process, stdout, stderr io.Writer) error {
	lasting := func(w io.Writer) ops.Sink {
		return func(r io.Reader) error {
			_, _ = io.Copy(w, r)
			_, err := io.Copy(io.Discard, r)
			return err
		}
	}
	result, err := ops.Follow(ctx, p, lasting(stdout), lasting(stderr))
	err = container.StartError(err)
	e.note(nil, new(container.CodeOf(&result, err)))
	return err
}

func inspectExec(h *Handler, _ context.Context, r *request) (any, error) {
	e, err := h.execs.find(r.ref)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return map[string]any{
		"ID": e.id, "Running": e.started && e.code == nil, "ExitCode": e.code, "ContainerID": e.container,
		"OpenStdin": e.ask.AttachStdin, "OpenStdout": e.ask.AttachStdout, "OpenStderr": e.ask.AttachStderr,
		"CanRemove": false, "DetachKeys": "", "Pid": 0,
		"ProcessConfig": map[string]any{
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
	e.mu.Lock()
	p := e.process
	e.mu.Unlock()
	if p == nil || !e.ask.Tty {
		return nil, runtime.Errorf(runtime.ErrConflict, "exec %s is not running at a terminal", e.id)
	}
	return created{map[string]string{}}, p.Resize(rows, cols)
}
