package local

import (
	"context"
	"syscall"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/local/reposync"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

// SessionJobs implements [runtime.SessionManager].
func (s *sessions) SessionJobs(ctx context.Context, sessionID runtime.SessionID) ([]*runtime.Job, error) {
	infos, _, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, name string) ([]wire.JobInfo, error) {
		return conn.Jobs(ctx, name)
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

// job returns what the guest says of a job.
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

// StartJob implements [runtime.SessionManager].
func (s *sessions) StartJob(ctx context.Context, sessionID runtime.SessionID, name string, cmd *runtime.Command) (*runtime.Job, error) {
	sandbox, cmd, err := inSession(sessionID, cmd)
	if err != nil {
		return nil, err
	}
	c, err := s.command(sandbox, &runtime.Command{
		Command: cmd.Command, Session: cmd.Session, Env: cmd.Env, Cwd: cmd.Cwd, NoWait: cmd.NoWait,
	}, false)
	if err != nil {
		return nil, err
	}
	c.Session.Op, c.Session.Job = wire.SessionJobStart, name
	git := s.gits.Begin(ctx, c.rec, c.config)
	info, _, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, _ string) (wire.JobInfo, error) {
		return conn.StartJob(ctx, &c.StartRequest)
	})
	if err != nil {
		git.End()
		return nil, err
	}
	if git != nil {
		go s.watchJob(sessionID, info.ID, git) // ends with the job, or the connection
	}
	return job(&info), nil
}

// watchJob keeps the git directories of a sandbox and the host's the same until a job has ended.
func (s *sessions) watchJob(sessionID runtime.SessionID, job string, git *reposync.Use) {
	defer git.End()
	ctx := context.Background()
	if _, _, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, name string) (wire.ExitStatus, error) {
		return conn.WaitJob(ctx, name, job)
	}); err == nil {
		git.Finish(ctx, new(runtime.Result))
	}
}

// JobOutput implements [runtime.SessionManager].
func (s *sessions) JobOutput(ctx context.Context, sessionID runtime.SessionID, job string, stdout, stderr uint64, follow bool) (runtime.Process, error) {
	p, rec, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, name string) (*client.Process, error) {
		return conn.Start(&client.Request{StartRequest: wire.StartRequest{Session: &wire.SessionRequest{
			Op: wire.SessionJobOutput, Name: name, Job: job, Offset: stdout, ErrOffset: stderr, Follow: follow,
		}}})
	})
	if err != nil {
		return nil, err
	}
	return &process{Process: p, rec: rec, session: true}, nil
}

// WaitJob implements [runtime.SessionManager].
func (s *sessions) WaitJob(ctx context.Context, sessionID runtime.SessionID, job string) (runtime.Result, error) {
	sandbox, _, err := splitSession(sessionID)
	if err != nil {
		return runtime.Result{}, err
	}
	rec, c, err := s.header(sandbox)
	if err != nil {
		return runtime.Result{}, err
	}
	git := s.gits.Begin(ctx, rec, c)
	defer git.End()
	status, _, err := askAbout(ctx, s, sessionID, func(conn *client.Conn, name string) (wire.ExitStatus, error) {
		return conn.WaitJob(ctx, name, job)
	})
	if err != nil {
		return runtime.Result{}, err
	}
	exit := exitOf(&status, true)
	git.Finish(ctx, &exit)
	return exit, nil
}

// SignalJob implements [runtime.SessionManager].
func (s *sessions) SignalJob(ctx context.Context, sessionID runtime.SessionID, job string, sig syscall.Signal) error {
	return s.tell(ctx, sessionID, func(conn *client.Conn, name string) error { return conn.SignalJob(ctx, name, job, sig) })
}

// AttachSession implements [runtime.SessionManager].
func (s *sessions) AttachSession(ctx context.Context, sessionID runtime.SessionID, req *runtime.AttachRequest) (runtime.Terminal, error) {
	sandbox, name, err := splitSession(sessionID)
	if err != nil {
		return nil, err
	}
	p := &process{session: true}
	t, rec, err := ask(ctx, s, sandbox, func(conn *client.Conn, c *statedir.Config) (*client.Terminal, error) {
		rec := s.dir.Record(c.ID)
		p.git, p.denials, p.refusals = s.gits.Begin(ctx, rec, c), denialsBefore(rec, c), refusalsBefore(ctx, rec, c)
		r := &wire.SessionRequest{Op: wire.SessionAttach, Name: name, Offset: req.Offset, Takeover: req.Takeover, User: userOf(c.RunAs)}
		if req.Create {
			start := sessionStart(c)
			r.Create = &start
		}
		return conn.Attach(ctx, &wire.StartRequest{Rows: req.Rows, Cols: req.Cols, Umask: s.umask, Session: r}, nil)
	})
	if err != nil {
		p.git.End()
		return nil, err
	}
	p.Process, p.rec = t.Process, rec
	return &terminal{process: p, start: t.Info.Start, end: max(t.Info.Start, t.Info.End)}, nil
}

// A terminal is a connection to a session's terminal.
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
