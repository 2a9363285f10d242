package reposync

import (
	"context"
	"sync"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A Use is a command in a sandbox whose git directories are its own. Methods of nil do nothing.
// End has to be called.
type Use struct {
	*repositories
	syncs, from int // of the box when the command began
	ended       sync.Once
	over        sync.Once
	report      runtime.GitReport
}

// End ends the watch. It does not wait, and calling it twice is fine.
func (u *Use) End() {
	if u == nil {
		return
	}
	u.over.Do(func() {
		u.syncer.mu.Lock()
		defer u.syncer.mu.Unlock()
		if u.users--; u.users == 0 {
			u.watcher.close() // nil is fine
			u.watcher = nil
		}
	})
}

// Finish takes over what a command that has ended has changed, and notes in its result what
// crossed while it ran. If git has changed nothing inside, that costs one system call.
func (u *Use) Finish(ctx context.Context, r *runtime.Result) {
	if u == nil {
		return
	}
	u.ended.Do(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.takeOver(ctx)
		if u.repositories.syncs != u.syncs {
			u.report = runtime.GitReport{Lines: u.linesFrom(u.from, u.pairs), Pending: pending(u.rec)}
		}
		// before the lock is free: a synchronisation that begins then would be stopped midway
		u.End()
		step.Reached("git: synchronised")
	})
	r.Git, r.GitPending = u.report.Lines, u.report.Pending
}
