package service

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"wolffia/internal/jobs"
	"wolffia/runtime"
)

// A JobParams describes a background job: a command with the state of a session's shell.
type JobParams struct {
	Session string // empty: the owner's persistent shell
	Name    string // by which the job can be meant as well as by its id; may be empty
	Command string
	Cwd     string            // absolute; empty: where the shell is
	Env     map[string]string // for this job only
}

// A JobOutput is a part of what a job has written.
type JobOutput struct {
	Job            *runtime.Job
	Stdout, Stderr JobPart
}

// A JobPart is a part of a stream of a job. Offsets are in bytes from the stream's beginning.
type JobPart struct {
	Bytes []byte
	From  uint64 // the offset of Bytes; larger than what was asked for if the bytes before are lost
	End   uint64 // of the stream, so far
}

// MaxJobOutput is how many bytes of each stream a JobOutput has at most.
const MaxJobOutput = 8 << 20

// session returns the id of the session that a call names; empty: the persistent shell.
func (i *Inside) session(name string) runtime.SessionID {
	return runtime.SessionIn(i.box.ID, cmp.Or(name, sessionName))
}

// StartJob starts a job, after earlier commands of the shell have ended.
func (i *Inside) StartJob(ctx context.Context, p *JobParams) (*runtime.Job, error) {
	if strings.TrimSpace(p.Command) == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the command is empty")
	}
	for k, v := range p.Env {
		if err := runtime.CheckVariable(k, v); err != nil {
			return nil, err
		}
	}
	return i.startJob(ctx, cmp.Or(p.Session, sessionName), p.Name, &runtime.Command{Command: []string{p.Command}, Env: p.Env, Cwd: p.Cwd})
}

// startJob starts a job in a session, which it makes if it is not there yet.
func (i *Inside) startJob(ctx context.Context, session, name string, req *runtime.Command) (*runtime.Job, error) {
	j, err := i.fleet.rt.StartJob(ctx, i.session(session), name, req)
	if !errors.Is(err, runtime.ErrNotFound) {
		return j, err
	}
	_, err = i.fleet.rt.CreateSession(ctx, i.box.ID, &runtime.SessionConfig{Name: session})
	if err != nil && !errors.Is(err, runtime.ErrExists) {
		return nil, err
	}
	return i.fleet.rt.StartJob(ctx, i.session(session), name, req)
}

// Jobs returns the jobs of a session, oldest first. A session that does not exist has none.
func (i *Inside) Jobs(ctx context.Context, session string) ([]*runtime.Job, error) {
	all, err := i.fleet.rt.SessionJobs(ctx, i.session(session))
	if errors.Is(err, runtime.ErrNotFound) {
		err = nil
	}
	return all, err
}

// Job returns the newest job of a session with this id or name.
func (i *Inside) Job(ctx context.Context, session, key string) (*runtime.Job, error) {
	all, err := i.Jobs(ctx, session)
	if err != nil {
		return nil, err
	}
	if j := jobs.Named(all, key); j != nil {
		return j, nil
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "no job %.100q", key)
}

// JobOutput returns what a job has written from the offsets on, as far as it is kept; nil means
// the end of the stream. It has at most so many bytes of each stream.
func (i *Inside) JobOutput(ctx context.Context, session, key string, stdout, stderr *uint64, most int) (*JobOutput, error) {
	if most <= 0 || most > MaxJobOutput {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%d bytes of output: it must be from 1 to %d", most, MaxJobOutput)
	}
	j, err := i.Job(ctx, session, key)
	if err != nil {
		return nil, err
	}
	out, errs, err := jobs.Read(ctx, i.fleet.rt, i.session(session), j, stdout, stderr, most)
	if err != nil {
		return nil, err
	}
	return &JobOutput{Job: j, Stdout: JobPart(out), Stderr: JobPart(errs)}, nil
}

// WaitJob waits until a job has ended, or the limit, and returns the job as it is then.
func (i *Inside) WaitJob(ctx context.Context, session, key string, limit time.Duration) (*runtime.Job, error) {
	j, err := i.Job(ctx, session, key)
	if err != nil || !j.EndedAt.IsZero() {
		return j, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := i.fleet.rt.WaitJob(waiting, i.session(session), j.ID); err != nil && (ctx.Err() != nil || waiting.Err() == nil) {
		return nil, err
	}
	return i.Job(ctx, session, j.ID)
}

// SignalJob sends a signal, such as TERM or SIGTERM, to all processes of a job.
func (i *Inside) SignalJob(ctx context.Context, session, key, sig string) (*runtime.Job, error) {
	n := jobs.Signal(sig)
	if n == 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "signal %.100q: it must be a name such as TERM, INT or KILL", sig)
	}
	j, err := i.Job(ctx, session, key)
	if err != nil {
		return nil, err
	}
	if err := i.fleet.rt.SignalJob(ctx, i.session(session), j.ID, n); err != nil {
		return nil, err
	}
	return i.Job(ctx, session, j.ID)
}
