package container

import (
	"bytes"
	"context"
	"io"
	"sync"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// A Sight says what of a main process's output goes where. nil: nowhere.
type Sight struct {
	Stdout, Stderr io.Writer // of one with a terminal all is on Stdout
	Follow         bool      // to its end
	Past           bool      // what there is already
	Tail           int       // with Past: how many lines of it; negative: all
}

var discard = ops.To(io.Discard)

// sink returns a Sink for a writer, which may be nil.
func sink(w io.Writer) ops.Sink {
	if w == nil {
		return discard
	}
	return ops.To(w)
}

// Logs shows the output of a container's main process, as far as it is kept: the last MiB of each
// stream, until the next start.
func (e *Engine) Logs(ctx context.Context, caller service.Caller, c *Container, s *Sight) error {
	if c.State == Created {
		return nil
	}
	e.mu.Lock()
	shown := e.shown[c.Sandbox.ID]
	if shown == nil {
		shown = new(sync.WaitGroup)
		e.shown[c.Sandbox.ID] = shown
	}
	shown.Add(1)
	e.mu.Unlock()
	defer shown.Done()
	in, err := e.service.Inside(ctx, caller, c.Sandbox.ID)
	if err != nil {
		return nil // it has ended with the sandbox
	}
	switch m := e.main(c.Sandbox.ID); {
	case c.Kind == byTerminal:
		return terminalLogs(ctx, in, c.Session, s)
	case c.Kind == byJob:
		return jobLogs(ctx, in, s)
	case m == nil:
		return runtime.Errorf(runtime.ErrUnsupported,
			"the output of container %s went to the client that it was attached to, and is not kept", c.ID())
	default:
		return m.logs(ctx, s)
	}
}

func jobLogs(ctx context.Context, in *service.Inside, s *Sight) error {
	j, err := jobs(in).Get(ctx, mainJob)
	if err != nil {
		return err
	}
	from := [2]uint64{j.Stdout.End, j.Stderr.End}
	if s.Past {
		var begin [2]uint64
		o, err := jobs(in).Output(ctx, j, &begin[0], &begin[1], kept)
		if err != nil {
			return err
		}
		for i, part := range []*ops.Part{&o.Stdout, &o.Stderr} {
			from[i] = max(part.Next(), part.From)
			if w := []io.Writer{s.Stdout, s.Stderr}[i]; w != nil {
				if _, err := w.Write(tailOf(part.Bytes, s.Tail)); err != nil {
					return err
				}
			}
		}
	}
	if !s.Follow {
		return nil
	}
	p, err := jobs(in).Runtime.JobOutput(ctx, jobs(in).Session, j.ID, from[0], from[1], true)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	_, err = ops.Follow(ctx, p, sink(s.Stdout), sink(s.Stderr))
	return err
}

func terminalLogs(ctx context.Context, in *service.Inside, session string, s *Sight) error {
	t, err := in.View(ctx, session, &runtime.AttachRequest{})
	if err != nil || s.Stdout == nil {
		return err
	}
	defer t.Close()
	defer context.AfterFunc(ctx, func() { _ = t.Close() })()
	past, err := io.ReadAll(io.LimitReader(t.Stdout(),
		int64(t.End()-t.Start()))) //nolint:gosec // the terminal keeps little
	if err != nil {
		return err
	}
	if s.Past {
		if _, err := s.Stdout.Write(tailOf(past, s.Tail)); err != nil {
			return err
		}
	}
	if s.Follow {
		_, err = io.Copy(s.Stdout, t.Stdout())
	}
	return err
}

func (m *Main) logs(ctx context.Context, s *Sight) error {
	positions := [2]*position{m.read(0, !s.Past), m.read(1, !s.Past)}
	for _, p := range positions {
		m.leave(p) // the process does not wait for it
	}
	return m.show(ctx, positions, s)
}

// show copies both streams from their positions on, which it leaves.
func (m *Main) show(ctx context.Context, positions [2]*position, s *Sight) error {
	var copying sync.WaitGroup
	var errs [2]error
	for i, w := range []io.Writer{s.Stdout, s.Stderr} {
		copying.Go(func() {
			defer m.leave(positions[i])
			if w == nil {
				return
			}
			if s.Past && s.Tail >= 0 {
				var past bytes.Buffer
				_ = m.copy(ctx, positions[i], false, &past) // no error but ctx's
				if _, errs[i] = w.Write(tailOf(past.Bytes(), s.Tail)); errs[i] != nil {
					return
				}
			}
			errs[i] = m.copy(ctx, positions[i], s.Follow, w)
		})
	}
	copying.Wait()
	if errs[0] != nil {
		return errs[0]
	}
	return errs[1]
}

// tailOf returns the last n lines of a text; all if n is negative.
func tailOf(b []byte, n int) []byte {
	if n < 0 {
		return b
	}
	end := len(bytes.TrimSuffix(b, []byte("\n")))
	for at := end; ; n-- {
		if n == 0 {
			return b[min(at+1, len(b)):]
		}
		if at = bytes.LastIndexByte(b[:max(at, 0)], '\n'); at < 0 {
			return b
		}
	}
}

// An Attachment is a client of a main process, from before its start on or later.
type Attachment struct {
	engine    *Engine
	main      *Main // nil: neither held here nor awaited
	positions [2]*position
	caller    service.Caller
	container *Container
}

// Attach attaches a client to a container. If that does not run yet, Serve waits for its start.
func (e *Engine) Attach(caller service.Caller, c *Container, past bool) *Attachment {
	a := &Attachment{engine: e, caller: caller, container: c}
	if c.State != Running {
		a.main, past = e.await(c.Sandbox.ID, true), true
	} else if c.Kind == byHolder {
		a.main = e.main(c.Sandbox.ID)
	}
	if a.main != nil {
		a.positions = [2]*position{a.main.read(0, !past), a.main.read(1, !past)}
	}
	return a
}

// Leave detaches a client that Serve has not served.
func (a *Attachment) Leave() {
	if a.main == nil {
		return
	}
	for _, p := range a.positions {
		a.main.leave(p)
	}
}

// Serve shows the output of the main process until it ends, and gives it what comes from stdin,
// which may be nil. ctx ends when the client has gone.
func (a *Attachment) Serve(ctx context.Context, stdin io.Reader, s *Sight) error {
	if m := a.main; m != nil {
		select {
		case <-m.started:
		case <-ctx.Done():
			a.Leave()
			return ctx.Err()
		}
		if p := m.Process; p != nil {
			if stdin != nil {
				go feed(p.Stdin(), stdin, a.container.StdinOnce) // ends with the client, or the process
			}
			return m.show(ctx, a.positions, s)
		}
		c, err := a.engine.Get(ctx, a.caller, a.container.ID())
		if err != nil {
			return err
		}
		a.container = c
	}
	in, err := a.engine.service.Inside(ctx, a.caller, a.container.Sandbox.ID)
	if err != nil {
		return err
	}
	if a.container.Kind != byTerminal {
		return a.engine.Logs(ctx, a.caller, a.container, s)
	}
	offset := uint64(runtime.FromEnd)
	if s.Past || a.main != nil {
		offset = 0
	}
	t, err := in.View(ctx, a.container.Session, &runtime.AttachRequest{Offset: offset})
	if err != nil {
		return err
	}
	defer t.Close()
	defer context.AfterFunc(ctx, func() { _ = t.Close() })()
	if stdin != nil {
		go feed(t.Stdin(), stdin, false)
	}
	_, err = ops.Follow(ctx, t, sink(s.Stdout), discard)
	return err
}

// feed passes on a client's input. Its end is the process's, if once.
func feed(to io.WriteCloser, from io.Reader, once bool) {
	_, _ = io.Copy(to, from)
	if once {
		_ = to.Close()
	}
}

// Resize sets the size of a container's terminal.
func (e *Engine) Resize(ctx context.Context, caller service.Caller, c *Container, rows, cols uint16) error {
	in, err := e.Running(ctx, caller, c)
	if err == nil && c.Kind == byHolder {
		p, err := e.process(c)
		if p == nil || err != nil {
			return err
		}
		return p.Resize(rows, cols)
	}
	if err != nil || c.Kind != byTerminal {
		return err
	}
	t, err := in.View(ctx, c.Session, &runtime.AttachRequest{Offset: runtime.FromEnd, Rows: rows, Cols: cols})
	if err != nil {
		return err
	}
	return t.Close()
}
