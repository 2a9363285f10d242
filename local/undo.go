package local

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// finishApply puts right what an Apply that was killed has left in the codebase of a sandbox that
// is about to be removed: no later command could. The caller holds the sandbox's lock, and no
// process of the sandbox runs. Without such an Apply, or without the codebase, it does nothing.
// The error names the codebase.
func (s *reviews) finishApply(ctx context.Context, rec *statedir.Record, c *statedir.Config, lock *statedir.Lock) error {
	if !c.CopyOnWrite || !rec.HasUndo() {
		return nil
	}
	if _, err := os.Lstat(c.CodebasePath); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, boot.ReviewLimit)
	defer cancel()
	err := s.reviewStopped(ctx, rec, lock, &boot.Review{Do: boot.ReviewRecover}, nil)
	if err == nil {
		return nil
	}
	return runtime.Errorf(runtime.ErrUnavailable,
		"an apply of sandbox %s was interrupted, and what it has left in %s cannot be put right: %w; look there for names that begin with %s",
		rec.ID(), c.CodebasePath, err, cow.TempPrefix)
}
