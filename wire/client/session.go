package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"wolffia/wire"
)

// maxAnswer bounds the answer to a question about sessions, in bytes.
const maxAnswer = 4 << 20

// askSession opens a channel for a request about sessions, waits for its end, and decodes Stdout
// into reply, if that is not nil. If ctx ends first, it cancels the request.
func (c *Conn) askSession(ctx context.Context, req *wire.StartRequest, reply any) (wire.ExitStatus, error) {
	var answer []byte
	long := false
	p, err := c.Start(&Request{
		StartRequest: *req,
		OnStdout: func(b []byte) {
			if long = long || len(answer)+len(b) > maxAnswer; !long {
				answer = append(answer, b...)
			}
		},
		OnStderr: func([]byte) {},
	})
	if err != nil {
		return wire.ExitStatus{}, err
	}
	status, err := p.Wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			_ = p.Kill()
		}
		return status, err
	}
	if reply == nil {
		return status, nil
	}
	if long {
		return status, fmt.Errorf("%w: an answer of more than %d bytes", wire.ErrProtocol, maxAnswer)
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return status, fmt.Errorf("%w: answer about sessions: %w", wire.ErrProtocol, err)
	}
	return status, nil
}

// CreateSession starts a shell session; see [wire.SessionCreate] for what req
// holds. It returns when the shell answers. A failure is a *StartError with a
// class.
func (c *Conn) CreateSession(ctx context.Context, req *wire.StartRequest) (wire.SessionInfo, error) {
	var info wire.SessionInfo
	_, err := c.askSession(ctx, req, &info)
	if errors.Is(err, wire.ErrProtocol) { // a sandbox that an earlier version has started answers nothing
		return c.Session(ctx, req.Session.Name)
	}
	return info, err
}

// PrepareSession starts the shell of a session that is created later; see [wire.SessionPrepare].
func (c *Conn) PrepareSession(ctx context.Context, start *wire.SessionStart) error {
	req := sessionRequest(wire.SessionRequest{Op: wire.SessionPrepare})
	req.Env, req.Dir = start.Env, start.Dir
	_, err := c.askSession(ctx, req, nil)
	return err
}

// Left returns what the sandbox has in a home directory and loses with its end.
func (c *Conn) Left(ctx context.Context, home string) ([]wire.LeftPath, error) {
	req := sessionRequest(wire.SessionRequest{Op: wire.SessionLeft})
	req.Dir = home
	var all []wire.LeftPath
	_, err := c.askSession(ctx, req, &all)
	return all, err
}

// DestroySession ends a session and all that it has started.
func (c *Conn) DestroySession(ctx context.Context, name string) error {
	_, err := c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionDestroy, Name: name}), nil)
	return err
}

// Sessions lists all sessions, by name.
func (c *Conn) Sessions(ctx context.Context) ([]wire.SessionInfo, error) {
	var all []wire.SessionInfo
	_, err := c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionList}), &all)
	return all, err
}

// Session describes a session.
func (c *Conn) Session(ctx context.Context, name string) (wire.SessionInfo, error) {
	var info wire.SessionInfo
	_, err := c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionGet, Name: name}), &info)
	return info, err
}

// Jobs lists the background jobs of a session, oldest first; with an empty
// name those of all sessions, destroyed ones too.
func (c *Conn) Jobs(ctx context.Context, session string) ([]wire.JobInfo, error) {
	var all []wire.JobInfo
	_, err := c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionJobs, Name: session}), &all)
	return all, err
}

// StartJob starts a background job; see [wire.SessionJobStart] for what req
// holds.
func (c *Conn) StartJob(ctx context.Context, req *wire.StartRequest) (wire.JobInfo, error) {
	var job wire.JobInfo
	_, err := c.askSession(ctx, req, &job)
	return job, err
}

// WaitJob waits until a job is over. The job continues if ctx ends first.
func (c *Conn) WaitJob(ctx context.Context, session, job string) (wire.ExitStatus, error) {
	return c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionJobWait, Name: session, Job: job}), nil)
}

// SignalJob sends a signal to all processes of a job.
func (c *Conn) SignalJob(ctx context.Context, session, job string, sig syscall.Signal) error {
	_, err := c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionJobSignal, Name: session, Job: job, Signal: uint8(sig)}), nil)
	return err
}

// Cancel ends a command that the session has kept.
func (c *Conn) Cancel(ctx context.Context, session, operation string) error {
	_, err := c.askSession(ctx, sessionRequest(wire.SessionRequest{Op: wire.SessionCancel, Name: session, Job: operation}), nil)
	return err
}

func sessionRequest(s wire.SessionRequest) *wire.StartRequest {
	return &wire.StartRequest{Session: &s}
}

// A Terminal is a process of [wire.SessionAttach] whose head has been read.
// Its Stdout is what the terminal prints, from Info.Start on. Kill detaches.
type Terminal struct {
	*Process
	Info wire.TerminalInfo
}

// Attach watches a session's terminal. It starts a shell on the terminal if it has none; see
// [wire.SessionAttach] for the fields of req. onStdout is as in Request.
func (c *Conn) Attach(ctx context.Context, req *wire.StartRequest, onStdout func([]byte)) (*Terminal, error) {
	r := Request{StartRequest: *req, OnStdout: onStdout}
	r.TTY, r.Stdin = true, true
	p, err := c.Start(&r)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() }) // detaches, which ends the stream below
	defer stop()
	t := &Terminal{Process: p}
	line, err := bufio.NewReader(io.LimitReader(p.Stderr(), wire.MaxPayload)).ReadBytes('\n')
	if err != nil {
		_ = p.Kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, werr := p.Wait(ctx); werr != nil {
			return nil, werr
		}
		return nil, fmt.Errorf("%w: a terminal without a head", wire.ErrProtocol)
	}
	if err := json.Unmarshal(line, &t.Info); err != nil {
		_ = p.Kill()
		return nil, fmt.Errorf("%w: head of a terminal: %w", wire.ErrProtocol, err)
	}
	return t, nil
}
