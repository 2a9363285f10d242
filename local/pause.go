package local

import (
	"context"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// pauseLimit is how long a shim may take to pause or resume its sandbox.
const pauseLimit = 40 * time.Second

// Pause implements [runtime.Runtime].
func (s *settings) Pause(ctx context.Context, sandboxID string) error {
	return s.askPause(ctx, sandboxID, boot.OpPause)
}

// Resume implements [runtime.Runtime].
func (s *settings) Resume(ctx context.Context, sandboxID string) error {
	return s.askPause(ctx, sandboxID, boot.OpResume)
}

func (s *settings) askPause(ctx context.Context, sandboxID, op string) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	return askPause(ctx, rec, op)
}

func askPause(ctx context.Context, rec *statedir.Record, op string) error {
	_, err := askShim(ctx, rec, &boot.Request{Op: op}, pauseLimit)
	if err != nil {
		err = runtime.Errorf(runtime.Class(err), "sandbox %s: %w", rec.ID(), err)
	}
	return orExpired(rec, err)
}

// awake returns the error for using a paused sandbox. One that was paused since it was not used is
// resumed; with anyway each is.
func awake(ctx context.Context, rec *statedir.Record, anyway bool) error {
	p := statedir.PauseOf(rec.Run())
	if p.SinceMS == 0 {
		return nil
	}
	if state, _, _ := rec.State(); state != runtime.StatePaused { // its shim was killed
		return nil
	}
	if p.Idle || anyway {
		return askPause(ctx, rec, boot.OpResume)
	}
	return runtime.Errorf(runtime.ErrConflict, "sandbox %s is paused: wolffia resume %[1]s", rec.ID())
}
