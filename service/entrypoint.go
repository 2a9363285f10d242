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
func (f *Fleet) enter(ctx context.Context, s *FleetSandbox) (ran bool, err error) {
	if isIdle(s.Entrypoint) {
		return false, nil
	}
	unlock, err := f.entering.lock(ctx, s.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	return f.enterLocked(ctx, s)
}

// enterLocked is enter; the caller holds the sandbox's lock of entering.
func (f *Fleet) enterLocked(ctx context.Context, s *FleetSandbox) (ran bool, err error) {
	if isIdle(s.Entrypoint) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	if done, err := f.entered(ctx, s.ID); done || err != nil {
		return false, err
	}
	_, err = (&Inside{f, s}).job(ctx, entrypointJob, &runtime.Command{Command: []string{"exec " + words(s.Entrypoint...)}})
	return err == nil, err
}

// entered reports whether the entrypoint of a sandbox was run since the sandbox started. It is
// the first command of its session. PID 1 forgets old jobs, but not how many commands a session has
// run; of a session that was destroyed it knows the jobs.
func (f *Fleet) entered(ctx context.Context, id string) (bool, error) {
	session := runtime.SessionIn(id, jobSession)
	s, err := f.rt.GetSession(ctx, session)
	if err == nil && s.Commands > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return false, err
	}
	jobs, err := f.rt.SessionJobs(ctx, session)
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return false, err
	}
	return slices.ContainsFunc(jobs, func(j *runtime.Job) bool { return j.Name == entrypointJob }), nil
}

// maxRecovering is how many sandboxes are recovered at a time.
const maxRecovering = 16

// Recover does what an earlier service has not come to in the sandboxes that run: it applies the
// timeouts of background commands, and runs entrypoints. It is called once; requests can be
// served meanwhile. A sandbox that does not answer is logged, and holds up no other.
func (f *Fleet) Recover(ctx context.Context) error {
	all, err := f.List(ctx, Caller{All: true})
	if err != nil {
		return err
	}
	var recovering sync.WaitGroup
	slots := make(chan struct{}, maxRecovering)
	for _, s := range all {
		if s.State != runtime.StateRunning {
			continue
		}
		slots <- struct{}{} // recover has a limit
		recovering.Go(func() {
			defer func() { <-slots }()
			if err := f.recover(ctx, s); err != nil && ctx.Err() == nil {
				f.log.Warn("cannot recover the background commands of a sandbox", "sandboxId", s.ID, "error", err.Error())
			}
		})
	}
	recovering.Wait()
	return nil
}

// recover is Recover for one sandbox.
func (f *Fleet) recover(ctx context.Context, s *FleetSandbox) error {
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	jobs, err := f.rt.SessionJobs(ctx, runtime.SessionIn(s.ID, jobSession))
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	for _, j := range jobs {
		if j.EndedAt.IsZero() {
			f.arm(s.ID, j.Name)
		}
	}
	_, err = f.enter(ctx, s)
	return err
}
