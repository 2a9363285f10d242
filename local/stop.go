package local

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// settleInterval is how often a sandbox that starts or stops is looked at, beside when its
// lock becomes free.
const settleInterval = 50 * time.Millisecond

// stop ends a sandbox: by its shim if that answers, else by killing what is left.
func (s *starter) stop(ctx context.Context, rec *statedir.Record, c *statedir.Config, grace time.Duration) error {
	defer func() {
		s.conns.End(rec.ID())
		s.alive.Close(rec.ID())
	}()
	if _, err := rec.Locked(); errors.Is(err, runtime.ErrUnavailable) {
		return err // its end could not be seen
	}
	if err := ensureTerminated(ctx, rec, c); err != nil {
		return err
	}
	was := rec.Processes().ShimStamp()
	for end := time.Now().Add(boot.KillLimit); ; {
		asked, err := s.askToStop(ctx, rec, grace)
		step.Reached("stop: asked")
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case asked && err == nil:
			// The shim has ended, and its tree server is about to end. Another shim is that of a
			// new start, which this call does not end.
			end = time.Now().Add(treeLimit(c))
			for time.Now().Before(end) && rec.Processes().ShimStamp() == was {
				if rec.WaitUnlocked(ctx, settleInterval) == nil {
					return nil
				}
			}
			if rec.Processes().ShimStamp() != was {
				return nil
			}
			return kill(ctx, rec, c)
		case asked || time.Now().After(end):
			return kill(ctx, rec, c)
		}
		lock, err := rec.TryLock()
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			return nil // destroyed meanwhile
		case err == nil: // no shim: one that was killed, or a start that was, may have left processes
			return errors.Join(killParts(rec, c), lock.Unlock(), lock.Close())
		case !errors.Is(err, runtime.ErrConflict):
			return kill(ctx, rec, c)
		}
		_ = rec.WaitUnlocked(ctx, settleInterval) // it starts or ends: soon it answers, or has ended
	}
}

// treeLimit is how long the tree server of a sandbox may outlive its shim.
func treeLimit(c *statedir.Config) time.Duration {
	if c.CopyOnWrite { // it may have an apply to stop
		return boot.ReviewStopLimit + boot.TreeLimit
	}
	return boot.TreeLimit
}

// askToStop asks the shim to end the sandbox and waits until the shim has ended. asked is
// false if no shim runs.
func (s *starter) askToStop(ctx context.Context, rec *statedir.Record, grace time.Duration) (asked bool, err error) {
	conn := s.conns.Shim(rec.ID())
	shared := conn != nil
	if !shared {
		sock, err := conns.Dial(rec)
		if err != nil {
			return false, err
		}
		conn = client.New(sock)
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, grace+boot.KillLimit)
	defer cancel()
	ms := grace.Milliseconds()
	var answer boot.Reply
	if err = conn.Control(ctx, boot.Request{Op: boot.OpStop, GraceMS: &ms, Idle: grace == 0 && s.conns.Seal(rec.ID())}, &answer); err == nil && answer.Err() != nil {
		return true, answer.Err()
	}
	if err != nil && shared && ctx.Err() == nil {
		return false, err // another shim may be there by now
	}
	select { // the connection may also end before the answer
	case <-conn.Done():
	case <-ctx.Done():
	}
	return true, ctx.Err()
}

// kill ends what is left of a sandbox whose shim does not answer or was killed, and waits
// for its keeper, if it has one, to clean up.
func kill(ctx context.Context, rec *statedir.Record, c *statedir.Config) error {
	err := killParts(rec, c)
	late := rec.WaitUnlocked(ctx, boot.KillLimit)
	if late != nil && ctx.Err() == nil && rec.HasEngine() {
		late = errors.Join(rec.Processes().KillKeeper(boot.KillLimit), rec.WaitUnlocked(ctx, boot.KillLimit))
	}
	return errors.Join(err, late)
}

// killParts kills a sandbox's processes, and asks its keeper to end.
func killParts(rec *statedir.Record, c *statedir.Config) error {
	var asked error
	if rec.HasEngine() {
		asked = rec.Processes().EndKeeper()
	}
	err := rec.Processes().Shim().Kill(boot.KillLimit)
	letDie(rec)
	return errors.Join(asked, err, rec.Processes().KillAll(c.UID, boot.KillLimit))
}
