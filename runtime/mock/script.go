package mock

import (
	"context"

	"wolffia/runtime"
)

// An Op is a kind of call that can be made to fail.
type Op string

// The kinds of call. OpExec is Exec, ExecStream and StartProcess.
const (
	OpCreate  Op = "Create"
	OpStart   Op = "Start"
	OpStop    Op = "Stop"
	OpDestroy Op = "Destroy"
	OpGet     Op = "Get"
	OpList    Op = "List"
	OpExec    Op = "Exec"
)

// FailNext makes the next call of that kind do nothing and return err. Called
// again, it is for the call after that.
func (r *Runtime) FailNext(op Op, err error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.world.fail[op] = append(r.world.fail[op], err)
}

// A Handler answers instead of a program. It gets what would be started,
// standard input apart, and returns how that ended and what it printed; or an
// error, which the caller gets; or neither, and then the program is run. It
// may be called concurrently.
type Handler func(s *runtime.Sandbox, spec *runtime.Command) (*runtime.Result, error)

// SetHandler has h answer from now on; nil has programs run.
func (r *Runtime) SetHandler(h Handler) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.world.handler = h
}

// enter begins a call: it fails if that was asked for, or if ctx is over.
func (w *world) enter(ctx context.Context, op Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if next := w.fail[op]; len(next) > 0 {
		w.fail[op] = next[1:]
		return next[0]
	}
	return nil
}

// at begins a call that concerns a sandbox.
func (w *world) at(ctx context.Context, op Op, sandboxID string) (*sandbox, error) {
	if err := w.enter(ctx, op); err != nil {
		return nil, err
	}
	return w.find(sandboxID)
}
