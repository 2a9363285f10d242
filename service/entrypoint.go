package service

import (
	"context"
	"errors"
	"slices"
	"sync"

	"wolffia/runtime"
)

// entrypointJob is the name of the job that is a sandbox's entrypoint.
const entrypointJob = "entrypoint"

// isIdle reports whether a command only waits, as the one that clients of OpenSandbox send
// for a sandbox without a program of its own.
func isIdle(command []string) bool {
	return len(command) == 0 || slices.Equal(command, IdleEntrypoint)
}

// IdleEntrypoint is the entrypoint of a sandbox that only waits. It is never run.
var IdleEntrypoint = []string{"tail", "-f", "/dev/null"}

// enter runs the entrypoint of a sandbox that runs, unless that was done since the sandbox
// started. ran is true if this call did it.
func (s *Service) enter(ctx context.Context, b *Sandbox) (ran bool, err error) {
	if isIdle(b.Entrypoint) {
		return false, nil
	}
	unlock, err := s.entering.lock(ctx, b.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	return s.enterLocked(ctx, b)
}

// enterLocked is enter; the caller holds the sandbox's lock of entering.
func (s *Service) enterLocked(ctx context.Context, b *Sandbox) (ran bool, err error) {
	if isIdle(b.Entrypoint) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	if done, err := s.entered(ctx, b.ID); done || err != nil {
		return false, err
	}
	if b.State == runtime.StateCreated { // its create is to fail
		if err := findEntrypoint(ctx, s.rt, b); err != nil {
			return false, err
		}
	}
	_, err = (&Inside{s, b}).job(ctx, entrypointJob, &runtime.Command{Command: []string{"exec " + words(b.Entrypoint...)}})
	return err == nil, err
}

// findEntrypoint returns an error if a sandbox certainly does not have the program of its entrypoint.
func findEntrypoint(ctx context.Context, rt Runtime, b *Sandbox) error {
	program := b.Entrypoint[0]
	r, err := rt.Exec(ctx, b.ID, &runtime.Command{
		Command: []string{"sh", "-c", `command -v -- "$1"`, "sh", program}, Timeout: insideLimit,
	})
	if err == nil && (r.ExitCode == 1 || r.ExitCode == 127) && !r.TimedOut {
		return runtime.Errorf(runtime.ErrInvalid,
			"entrypoint: the sandbox has no program %q: name one that it has, or leave entrypoint out", program)
	}
	return nil // the session of the entrypoint tells more
}

// entered reports whether the entrypoint of a sandbox was run since the sandbox started. It is
// the first command of its session. PID 1 forgets old jobs, but not how many commands a session has
// run; of a session that was destroyed it knows the jobs.
func (s *Service) entered(ctx context.Context, id string) (bool, error) {
	session := runtime.SessionIn(id, jobSession)
	b, err := s.rt.GetSession(ctx, session)
	if err == nil && b.Commands > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return false, err
	}
	jobs, err := s.rt.SessionJobs(ctx, session)
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return false, err
	}
	return slices.ContainsFunc(jobs, func(j *runtime.Job) bool { return j.Name == entrypointJob }), nil
}

// maxRecovering is how many sandboxes are recovered at a time.
const maxRecovering = 16

// Recover finishes what an earlier service began: it destroys the sandboxes that no caller was
// told of, and in those that run it applies the timeouts of background commands, and runs
// entrypoints. It is called once; requests can be served meanwhile. A sandbox that does not answer
// is logged, and holds up no other.
func (s *Service) Recover(ctx context.Context) error {
	all, err := s.List(ctx, Caller{All: true})
	if err != nil {
		return err
	}
	var recovering sync.WaitGroup
	slots := make(chan struct{}, maxRecovering)
	for _, b := range all {
		if b.State != runtime.StateRunning && !b.unanswered {
			if b.WakesOnUse && !b.stopsAt.IsZero() {
				s.stopAt(b.ID, b.stopsAt)
			}
			continue
		}
		slots <- struct{}{} // recover has a limit
		recovering.Go(func() {
			defer func() { <-slots }()
			what, err := "cannot recover the background commands of a sandbox", error(nil)
			if b.unanswered {
				what, err = "cannot destroy a sandbox whose create has not returned", forsake(ctx, s, b)
			} else {
				err = s.recover(ctx, b)
			}
			if err != nil && ctx.Err() == nil {
				s.log.Warn(what, "sandboxId", b.ID, "error", err.Error())
			}
		})
	}
	recovering.Wait()
	return nil
}

// forsake destroys a sandbox that an earlier service was killed over, before it had answered.
func forsake(ctx context.Context, s *Service, b *Sandbox) error {
	if _, mine := s.starting.Load(b.ID); mine {
		return nil
	}
	now, err := s.rt.Get(ctx, b.ID) // after the look at starting: this service may have answered meanwhile
	if err == nil {
		if b, _ = s.describe(now); b == nil || !b.unanswered {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, undoLimit)
		defer cancel()
		err = s.destroyed(ctx, now.ID)
	}
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err == nil {
		s.log.Info("destroyed a sandbox whose create has not returned", "sandboxId", now.ID)
	}
	return err
}

// recover is Recover for one sandbox.
func (s *Service) recover(ctx context.Context, b *Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	if !b.stopsAt.IsZero() { // first: the sandbox may not answer
		s.stopAt(b.ID, b.stopsAt)
	}
	jobs, err := s.rt.SessionJobs(ctx, runtime.SessionIn(b.ID, jobSession))
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	for _, j := range jobs {
		if j.EndedAt.IsZero() {
			s.arm(b.ID, j.Name)
		}
	}
	_, err = s.enter(ctx, b)
	return err
}
