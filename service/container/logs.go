package container

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// A Sight says what of a main process's output goes where. nil: nowhere.
type Sight struct {
	Stdout, Stderr io.Writer // of one with a terminal all is on Stdout
	Follow         bool      // to its end
	Past           bool      // what there is already
	Tail           int       // with Past: how many lines of it; negative: all
}

// Logs shows the output of a container's main process, as far as it is kept: the last MiB of each
// stream, until the next start.
func (c *Container) Logs(ctx context.Context, s *Sight) error {
	if c.State == Created {
		return nil
	}
	c.engine.mu.Lock()
	shown := c.engine.shown[c.Sandbox.ID]
	if shown == nil {
		shown = new(sync.WaitGroup)
		c.engine.shown[c.Sandbox.ID] = shown
	}
	shown.Add(1)
	c.engine.mu.Unlock()
	defer shown.Done()
	v, err := c.view(ctx, look{past: s.Past, follow: s.Follow})
	switch {
	case gone(err): // it has ended with the sandbox
		return nil
	case err != nil:
		return err
	}
	return s.show(ctx, v)
}

// show passes on the output of a view, which it closes.
func (s *Sight) show(ctx context.Context, v viewed) error {
	defer v.Close()
	defer context.AfterFunc(ctx, func() { _ = v.Close() })()
	var failed [2]error
	var passing sync.WaitGroup
	pass := func(i int, w io.Writer, r io.Reader) {
		if w == nil {
			w = io.Discard
		}
		past, err := io.ReadAll(io.LimitReader(r, int64(v.past[i]))) //nolint:gosec // at most kept
		if s.Past && err == nil {
			_, err = w.Write(tailOf(past, s.Tail))
		}
		if s.Follow && err == nil {
			_, err = io.Copy(w, r)
		}
		if failed[i] = err; err != nil {
			_ = v.Close()
		}
	}
	passing.Go(func() { pass(0, s.Stdout, v.Stdout()) })
	passing.Go(func() { pass(1, s.Stderr, v.Stderr()) })
	passing.Wait()
	return errors.Join(context.Cause(ctx), failed[0], failed[1])
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
	container *Container
	main      *held // of the next start; nil: it runs
	held      viewed
}

// Attach attaches a client to a container, which may not run yet. The caller calls Leave.
func (c *Container) Attach() *Attachment {
	a := &Attachment{container: c}
	if !c.State.Runs() {
		a.main = c.engine.next(c.Sandbox.ID)
		a.held.Process, a.held.past = a.main.view(look{true, true, true})
	}
	return a
}

// Started is closed when the main process has begun; nil: it runs.
func (a *Attachment) Started() <-chan struct{} {
	if a.main == nil {
		return nil
	}
	return a.main.started
}

// Leave detaches the client.
func (a *Attachment) Leave() {
	if a.main != nil {
		_ = a.held.Close()
	}
}

// Serve shows the output of the main process, which has begun, until it ends, and gives it what
// comes from stdin, which may be nil. ctx ends when the client has gone.
func (a *Attachment) Serve(ctx context.Context, stdin io.Reader, s *Sight) error {
	v, c, err := a.held, a.container, error(nil)
	if a.main == nil || a.main.process == nil { // its streams are not here
		if a.main != nil { // it was not started
			if c, err = c.Now(ctx); err != nil {
				return err
			}
		}
		if v, err = c.view(ctx, look{s.Past || a.main != nil, true, true}); err != nil {
			return err
		}
	}
	if stdin != nil && c.Kind != byJob {
		go func() { // ends with the client, or the process
			_, _ = io.Copy(v.Stdin(), stdin)
			if c.StdinOnce && c.Kind != byTerminal {
				_ = v.Stdin().Close()
			}
		}()
	}
	return s.show(ctx, v)
}
