package local

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// record has write record something of a sandbox, and then tell have the shim
// follow it, if one runs. It is not done if the sandbox is just being started or
// stopped, or ended while it was told.
// Precondition: the configuration's lock is held.
func record(ctx context.Context, box *statedir.Box, write func() error, tell func(context.Context) (done bool, err error)) (done bool, err error) {
	lock, err := box.TryLock()
	switch {
	case err == nil:
		// Nobody may start it meanwhile, by what was recorded before.
		return true, errors.Join(write(), lock.Unlock(), lock.Close())
	case !errors.Is(err, runtime.ErrConflict):
		return true, err
	}
	if state, _, serr := box.State(); serr != nil || state != runtime.StateRunning {
		return serr != nil, errors.Join(err, serr)
	}
	if err := ctx.Err(); err != nil {
		return true, err
	}
	if err := write(); err != nil {
		return true, err
	}
	// From here on it is seen through, whatever ctx says.
	return tell(context.WithoutCancel(ctx))
}

// untilSettled tries something until it is done, while a sandbox is on its way
// up or down.
func untilSettled(ctx context.Context, try func() (done bool, err error)) error {
	const look = 10 * time.Millisecond
	for end := time.Now().Add(boot.KillLimit); ; {
		done, err := try()
		if done || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(look):
		}
	}
}
