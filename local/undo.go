package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
)

// finishMoves removes what a killed tree server has left of a directory that it was moving to where
// other rules hold: directories, and names of files that have others. The caller holds the
// sandbox's lock, and no process of the sandbox runs. The error names what stays.
func finishMoves(rec *statedir.Record, c *statedir.Config) error {
	var st unix.Stat_t
	var errs []error
	for _, name := range cow.MoveTemps(rec.ID()) {
		if c.CodebasePath == "" || unix.Lstat(filepath.Join(c.CodebasePath, name), &st) != nil {
			continue
		}
		root, err := os.OpenFile(c.CodebasePath, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		owner := os.Geteuid()
		if c.DroppedUID != 0 && !c.RootTree {
			owner = c.DroppedUID
		}
		err = clearMoved(int(root.Fd()), name, uint32(owner))
		_ = root.Close()
		if err != nil {
			errs = append(errs, runtime.Errorf(runtime.ErrUnavailable,
				"sandbox %s was killed while it moved a directory (%w): move what you need, and remove %s",
				rec.ID(), err, filepath.Join(c.CodebasePath, name)))
		}
	}
	return errors.Join(errs...)
}

// clearMoved removes the directory called name of the directory parent, and of each file in it the
// name if the file has another. No sandbox can use name. A process of the owner on the host can:
// so nothing is removed from directories of others.
func clearMoved(parent int, name string, owner uint32) error {
	fd, err := beneath.Open(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Uid != owner {
		return errors.Join(err, unix.EPERM)
	}
	names, err := dir.Readdirnames(-1)
	for _, n := range names {
		switch err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW); {
		case err != nil:
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			_ = clearMoved(fd, n, owner)
		case st.Nlink > 1:
			_ = unix.Unlinkat(fd, n, 0)
		}
	}
	return errors.Join(err, unix.Unlinkat(parent, name, unix.AT_REMOVEDIR))
}

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
