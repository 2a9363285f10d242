package local

import (
	"context"
	"syscall"
	"time"

	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

var (
	_ runtime.JobManager      = (*Runtime)(nil)
	_ runtime.SessionAttacher = (*Runtime)(nil)
)

// inside asks about one session.
func (r *Runtime) inside(sessionID string, ask func(conn *client.Conn, name string) error) (*statedir.Box, error) {
	sandbox, name, err := splitSession(sessionID)
	if err != nil {
		return nil, err
	}
	return r.talk(sandbox, func(conn *client.Conn, _ *statedir.Config) error { return ask(conn, name) })
}

// SessionJobs implements [runtime.JobManager].
func (r *Runtime) SessionJobs(ctx context.Context, sessionID string) ([]*runtime.Job, error) {
	var infos []wire.JobInfo
	_, err := r.inside(sessionID, func(conn *client.Conn, name string) (err error) {
		infos, err = conn.Jobs(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	jobs := make([]*runtime.Job, len(infos))
	for i := range infos {
		jobs[i] = job(&infos[i])
	}
	return jobs, nil
}

func job(i *wire.JobInfo) *runtime.Job {
	j := &runtime.Job{
		ID: i.ID, Name: i.Name, Session: i.Session, Command: i.Command, State: i.State, PIDs: i.PIDs,
		StartedAt: time.UnixMilli(i.StartedMS), ExitCode: i.Code,
		Stdout: runtime.JobStream{Start: i.StdoutStart, End: i.StdoutEnd},
		Stderr: runtime.JobStream{Start: i.StderrStart, End: i.StderrEnd},
	}
	if i.EndedMS != 0 {
		j.EndedAt = time.UnixMilli(i.EndedMS)
	}
	return j
}

// StartJob implements [runtime.JobManager].
func (r *Runtime) StartJob(ctx context.Context, sessionID, name string, req *runtime.SessionExecRequest) (*runtime.Job, error) {
	_, spec, err := sessionSpec(sessionID, req)
	if err != nil {
		return nil, err
	}
	start := &wire.StartRequest{Args: spec.Command}
	if err := inSession(start, spec); err != nil {
		return nil, err
	}
	start.Session.Op, start.Session.Job = wire.SessionJobStart, name
	var info wire.JobInfo
	_, err = r.inside(sessionID, func(conn *client.Conn, _ string) (err error) {
		info, err = conn.StartJob(ctx, start)
		return err
	})
	if err != nil {
		return nil, err
	}
	return job(&info), nil
}

// JobOutput implements [runtime.JobManager].
func (r *Runtime) JobOutput(_ context.Context, sessionID, job string, stdout, stderr uint64, follow bool) (runtime.Process, error) {
	var p *client.Process
	box, err := r.inside(sessionID, func(conn *client.Conn, name string) (err error) {
		p, err = conn.Start(&client.Request{StartRequest: wire.StartRequest{Session: &wire.SessionRequest{
			Op: wire.SessionJobOutput, Name: name, Job: job, Offset: stdout, ErrOffset: stderr, Follow: follow,
		}}})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &process{Process: p, box: box, session: true}, nil
}

// WaitJob implements [runtime.JobManager].
func (r *Runtime) WaitJob(ctx context.Context, sessionID, job string) (runtime.Exit, error) {
	var status wire.ExitStatus
	_, err := r.inside(sessionID, func(conn *client.Conn, name string) (err error) {
		status, err = conn.WaitJob(ctx, name, job)
		return err
	})
	if err != nil {
		return runtime.Exit{}, err
	}
	return exitOf(&status, true), nil
}

// SignalJob implements [runtime.JobManager].
func (r *Runtime) SignalJob(ctx context.Context, sessionID, job string, sig syscall.Signal) error {
	_, err := r.inside(sessionID, func(conn *client.Conn, name string) error {
		return conn.SignalJob(ctx, name, job, sig)
	})
	return err
}

// AttachSession implements [runtime.SessionAttacher].
func (r *Runtime) AttachSession(ctx context.Context, sessionID string, req *runtime.AttachRequest) (runtime.Terminal, error) {
	var t *client.Terminal
	box, err := r.inside(sessionID, func(conn *client.Conn, name string) (err error) {
		t, err = conn.Attach(ctx, &wire.StartRequest{
			Rows: req.Rows, Cols: req.Cols,
			Session: &wire.SessionRequest{Op: wire.SessionAttach, Name: name, Offset: req.Offset, Takeover: req.Takeover},
		}, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &terminal{
		process: &process{Process: t.Process, box: box, session: true},
		start:   t.Info.Start, end: max(t.Info.Start, t.Info.End),
	}, nil
}

// A terminal is a session's that somebody watches.
type terminal struct {
	*process
	start, end uint64
}

// Start implements [runtime.Terminal].
func (t *terminal) Start() uint64 { return t.start }

// End implements [runtime.Terminal].
func (t *terminal) End() uint64 { return t.end }

// Detached implements [runtime.Terminal].
func (t *terminal) Detached() bool {
	status, err := t.Process.Wait(context.Background()) // it has ended
	return err == nil && status.Detached
}
