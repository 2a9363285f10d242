package local

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// Stop implements [runtime.Runtime].
func (r *Runtime) Stop(ctx context.Context, sandboxID string) error {
	box, c, err := r.find(sandboxID)
	if err != nil {
		return err
	}
	if err := r.stop(ctx, box, c, boot.StopGrace); err != nil || !c.Resources.Limited() {
		return err
	}
	lock, err := box.TryLock()
	if err != nil {
		return nil //nolint:nilerr // destroyed or started again meanwhile
	}
	return errors.Join(unlimit(box), lock.Unlock(), lock.Close())
}

// stop ends the shim that there is, in good order if it answers; else whatever
// is left of it is killed.
func (r *Runtime) stop(ctx context.Context, box *statedir.Box, c *statedir.Config, grace time.Duration) error {
	defer r.forget(box.ID())
	if _, err := box.Locked(); errors.Is(err, runtime.ErrUnavailable) {
		return err // nobody could tell when it has ended
	}
	const look = 50 * time.Millisecond
	was := box.Shim()
	for end := time.Now().Add(boot.KillLimit); ; {
		asked, err := askToStop(ctx, box, grace)
		step.Reached("stop: asked")
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case asked && err == nil:
			// The shim is gone, its tree server about to be; unless somebody has
			// started it again, which is not ours to end.
			end = time.Now().Add(boot.TreeLimit)
			for time.Now().Before(end) && box.Shim() == was {
				if box.WaitUnlocked(ctx, look) == nil {
					return nil
				}
			}
			if box.Shim() != was {
				return nil
			}
			return r.kill(ctx, box, c)
		case asked || time.Now().After(end):
			return r.kill(ctx, box, c)
		}
		lock, err := box.TryLock()
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			return nil // destroyed meanwhile
		case err == nil:
			// What a shim that was killed, by itself or in a start, may have left;
			// nobody starts it again meanwhile.
			return errors.Join(killParts(box, c), lock.Unlock(), lock.Close())
		case !errors.Is(err, runtime.ErrConflict):
			return r.kill(ctx, box, c)
		}
		// On its way up or down: it will soon answer, or be gone.
		_ = box.WaitUnlocked(ctx, look)
	}
}

// askToStop asks the shim to end the sandbox and waits until the shim is gone.
// asked is false if there is none that can be asked.
func askToStop(ctx context.Context, box *statedir.Box, grace time.Duration) (asked bool, err error) {
	sock, err := dial(box) // not the one of other calls, which may be closed
	if err != nil {
		return false, err
	}
	conn := client.New(sock)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, grace+boot.KillLimit)
	defer cancel()
	ms := grace.Milliseconds()
	var answer boot.Reply
	err = conn.Control(ctx, boot.Request{Op: boot.OpStop, GraceMS: &ms}, &answer)
	if err == nil && answer.Error != "" {
		return true, errors.New(answer.Error)
	}
	// That the connection ends before the answer is an end too.
	select {
	case <-conn.Done():
		return true, ctx.Err()
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// kill ends what is left of a sandbox whose shim does not answer, or was
// killed itself.
func (r *Runtime) kill(ctx context.Context, box *statedir.Box, c *statedir.Config) error {
	return errors.Join(killParts(box, c), r.endKeeper(ctx, box))
}

// killParts is kill that does not wait for whoever has the lock.
func killParts(box *statedir.Box, c *statedir.Config) error {
	var asked error
	if box.HasEngine() {
		asked = box.EndKeeper() // or it would have another shim
	}
	return errors.Join(asked, box.Shim().Kill(boot.KillLimit), box.KillAll(c.UID, boot.KillLimit))
}

// endKeeper waits for a keeper whose shim is gone, which has something to clean
// up; one that does not finish is killed.
func (r *Runtime) endKeeper(ctx context.Context, box *statedir.Box) error {
	err := box.WaitUnlocked(ctx, boot.KillLimit)
	if err == nil || ctx.Err() != nil || !box.HasEngine() {
		return err
	}
	return errors.Join(box.KillKeeper(boot.KillLimit), box.WaitUnlocked(ctx, boot.KillLimit))
}
