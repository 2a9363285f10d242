package ops

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"wolffia/runtime"
)

// A Sink takes an output stream of a command: it reads r to its end. Its error ends the command.
type Sink func(r io.Reader) error

// To returns a Sink that writes to w.
func To(w io.Writer) Sink {
	return func(r io.Reader) error {
		_, err := io.Copy(w, r)
		return err
	}
}

// Run runs a command in a sandbox to its end, as [Follow] does. The result has its Duration.
func Run(ctx context.Context, rt runtime.Executor, sandboxID string, cmd *runtime.Command, stdout, stderr Sink) (*runtime.Result, error) {
	begin := time.Now()
	p, err := rt.StartProcess(ctx, sandboxID, cmd)
	if err != nil {
		return nil, err
	}
	r, err := Follow(ctx, p, stdout, stderr)
	if err != nil {
		return nil, err
	}
	r.Duration = time.Since(begin)
	return &r, nil
}

// Follow passes on the output of a process until its end, closes it, and returns how it ended,
// without output. The sinks run concurrently, and have returned when Follow does. If ctx ends, the
// process is closed and the error is ctx's cause; if a sink fails, it is closed and the error is
// the sink's, unless the sandbox has ended.
func Follow(ctx context.Context, p runtime.Process, stdout, stderr Sink) (runtime.Result, error) {
	defer p.Close()
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	var failed [2]error
	var passing sync.WaitGroup
	for i, s := range []struct {
		pass Sink
		from io.Reader
	}{{stdout, p.Stdout()}, {stderr, p.Stderr()}} {
		passing.Go(func() { // ends with the process
			if failed[i] = s.pass(s.from); failed[i] != nil {
				_ = p.Close()
			}
		})
	}
	r, err := p.Wait(ctx)
	if err != nil {
		_ = p.Close()
	}
	passing.Wait()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil:
		err = errors.Join(failed[:]...)
	}
	return r, err
}
