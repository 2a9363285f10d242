package conns

import (
	"context"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// pauseLimit is how long a shim may take to pause or resume its sandbox.
const pauseLimit = 40 * time.Second

// AskPause has the shim of a sandbox pause or resume it.
func AskPause(ctx context.Context, rec *statedir.Record, op string) error {
	_, err := Ask(ctx, rec, &boot.Request{Op: op}, pauseLimit)
	if err != nil {
		err = runtime.Errorf(runtime.Class(err), "sandbox %s: %w", rec.ID(), err)
	}
	return OrExpired(rec, err)
}

// Awake starts a sandbox that hibernates, and resumes one that is paused as [Awake] does.
func (s *Conns) Awake(ctx context.Context, rec *statedir.Record) error {
	if s.Wake != nil && !rec.HasSocket() {
		if err := s.Wake(ctx, rec); err != nil {
			return err
		}
	}
	return Awake(ctx, rec, s.Resume)
}

// Awake returns the error for using a paused sandbox. One that was paused since it was not used is
// resumed; with anyway each is.
func Awake(ctx context.Context, rec *statedir.Record, anyway bool) error {
	p := statedir.PauseOf(rec.Run())
	if p.SinceMS == 0 {
		return nil
	}
	if state, _, _ := rec.State(); state != runtime.StatePaused { // its shim was killed
		return nil
	}
	if p.Idle || anyway {
		return AskPause(ctx, rec, boot.OpResume)
	}
	return runtime.Errorf(runtime.ErrConflict, "sandbox %s is paused: wolffia resume %[1]s", rec.ID())
}
