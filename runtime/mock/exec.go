package mock

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/feed"
	"wolffia/runtime"
)

// Exec implements [runtime.Executor].
func (r *Runtime) Exec(ctx context.Context, sandboxID string, req *runtime.Command) (*runtime.Result, error) {
	begin := time.Now()
	keep, tail, err := req.OutputLimits()
	if err != nil {
		return nil, err
	}
	p, unread, err := r.command(ctx, sandboxID, req, false)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	res := new(runtime.Result)
	var reading sync.WaitGroup
	reading.Go(func() { res.Stdout, res.StdoutDropped = collect(p.stdout, excerpt.New(keep, tail)) })
	reading.Go(func() { res.Stderr, res.StderrDropped = collect(p.stderr, excerpt.New(keep, tail)) })
	reading.Wait()
	exit, err := p.Wait(ctx)
	if err := errors.Join(ctx.Err(), unread(), err); err != nil {
		return nil, err
	}
	res.ExitCode, res.Signal, res.TimedOut = exit.ExitCode, exit.Signal, exit.TimedOut
	res.Duration = time.Since(begin)
	return res, nil
}

// collect keeps a part of what is read, and counts the rest.
func collect(r io.Reader, part *excerpt.Excerpt) (kept []byte, dropped int64) {
	_, _ = io.Copy(part, r)
	return part.Result()
}

// ExecStream implements [runtime.Executor].
func (r *Runtime) ExecStream(ctx context.Context, sandboxID string, req *runtime.Command, output chan<- []byte) error {
	defer close(output)
	p, unread, err := r.command(ctx, sandboxID, req, true)
	if err != nil {
		return err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	for buf := make([]byte, 32<<10); ; {
		n, err := p.stdout.Read(buf)
		if n > 0 {
			select {
			case output <- slices.Clone(buf[:n]):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			break
		}
	}
	exit, err := p.Wait(ctx)
	if err := errors.Join(ctx.Err(), unread(), err); err != nil {
		return err
	}
	if exit.ExitCode != 0 || exit.TimedOut {
		return &runtime.ExitError{Result: exit}
	}
	return nil
}

// command starts what a call of Exec asks for; unread is as in [feed.Start].
func (r *Runtime) command(ctx context.Context, sandboxID string, req *runtime.Command, merge bool) (p *process, unread func() error, err error) {
	if err := req.Check(false); err != nil {
		return nil, nil, err
	}
	own := *req
	own.Stdin, own.OpenStdin, own.Merge = nil, req.Stdin != nil, merge
	p, err = r.start(ctx, sandboxID, &own)
	if err != nil || req.Stdin == nil {
		return p, func() error { return nil }, err
	}
	return p, feed.Start(p.stdin, req.Stdin, func() { _ = p.Close() }), nil
}

// StartProcess implements [runtime.Executor].
func (r *Runtime) StartProcess(ctx context.Context, sandboxID string, spec *runtime.Command) (runtime.Process, error) {
	p, err := r.start(ctx, sandboxID, spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (r *Runtime) start(ctx context.Context, sandboxID string, spec *runtime.Command) (*process, error) {
	b, err := r.world.at(ctx, OpExec, sandboxID)
	if err != nil {
		return nil, err
	}
	if err := spec.Check(true); err != nil {
		return nil, err
	}
	if spec.Keep != "" || spec.Adopt != 0 {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "a mock keeps no processes")
	}
	if spec.TTY {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "a mock has no terminals")
	}
	r.world.mu.Lock()
	handler := r.world.handler
	r.world.mu.Unlock()
	s := b.describe()
	if s.State == runtime.StateRunning && handler != nil {
		if res, err := handler(s, spec); err != nil {
			return nil, err
		} else if res != nil {
			return answered(res, spec.Merge), nil
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != runtime.StateRunning {
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running, it is %s", s.ID, b.state)
	}
	return b.run(spec)
}

// lookPath finds a program as execvp(3) does.
func lookPath(name, dir string, env []string) (string, error) {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", &runtime.StartError{Code: 125, Message: "working directory " + dir + " is none"}
	}
	switch {
	case name == "":
		return "", startError(name, syscall.ENOENT)
	case strings.HasPrefix(name, "/"):
		return name, nil
	case strings.Contains(name, "/"):
		return dir + "/" + name, nil // not cleaned: the kernel must see a/../b
	}
	for _, v := range env {
		list, ok := strings.CutPrefix(v, "PATH=")
		for _, at := range filepath.SplitList(list) {
			path := filepath.Join(at, name)
			if st, err := os.Stat(path); ok && err == nil && !st.IsDir() && unix.Access(path, unix.X_OK) == nil {
				return path, nil
			}
		}
	}
	return "", startError(name, syscall.ENOENT)
}

// startError says why a program was not started.
func startError(name string, err error) error {
	code := 126
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
		code = 127
	}
	return &runtime.StartError{Code: code, Message: name + ": " + err.Error()}
}
