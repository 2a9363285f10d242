package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A gitTemp says what has the temporary name of a sandbox in the codebase. It is on the disk
// before something has that name, and until nothing has it any more: so a killed process leaves
// nothing there for long, and what is not wolffia's is not touched.
type gitTemp struct {
	// Back is the absolute path of the git directory that gets its name back: it may be the user's.
	// "" is one that is removed: it is half made, or half removed.
	Back string `json:"back,omitempty"`
}

// tempName is the name in the top of the codebase, which no sandbox with a tree server can use, of
// a git directory that is being made or removed.
func (b *gitBox) tempName() string { return cow.TempPrefix + "git-" + b.box.ID() }

func (b *gitBox) tempFile() string {
	return filepath.Join(statedir.Git(b.box.Run()), statedir.GitTemp)
}

// claimTemp records what is about to have the temporary name. It is an error if something has it.
func (b *gitBox) claimTemp(root *os.File, t gitTemp) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(root.Fd()), b.tempName(), &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is in the way: rename or remove it", filepath.Join(root.Name(), b.tempName())), err)
	}
	return b.recordTemp(t)
}

// recordTemp records what has the temporary name.
func (b *gitBox) recordTemp(t gitTemp) error {
	err := statefile.WriteSync(b.tempFile(), &t)
	if err == nil {
		err = b.box.Git().Give(b.config, b.tempFile())
	}
	return err
}

// dropTemp removes what has the temporary name, and the record.
func (b *gitBox) dropTemp(root *os.File) error {
	if err := rmtree.Remove(root, b.tempName()); err != nil {
		return err
	}
	return b.forgetTemp()
}

// forgetTemp removes the record: nothing has the temporary name any more.
func (b *gitBox) forgetTemp() error {
	if err := os.Remove(b.tempFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// settleTemp does what a killed process could not do with the temporary name. The caller has the lock of openArrivals.
func (b *gitBox) settleTemp(root *os.File) error {
	var t gitTemp
	err := statefile.Read(b.tempFile(), &t)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case t.Back == "":
		return b.dropTemp(root)
	}
	to, err := b.openAbove(t.Back, root)
	if err == nil {
		err = unix.Renameat2(int(root.Fd()), b.tempName(), int(to.Fd()), filepath.Base(t.Back), unix.RENAME_NOREPLACE)
		_ = to.Close()
	}
	if err != nil && !(to != nil && errors.Is(err, fs.ErrNotExist)) { // it had not been moved yet
		return fmt.Errorf("%s is in %s, and cannot be moved back: %w", t.Back, filepath.Join(root.Name(), b.tempName()), err)
	}
	return b.forgetTemp()
}

// settle puts right what a process that was killed while it made or removed a git directory has
// left in the codebase of a sandbox. The error names the codebase.
func (g *gits) settle(ctx context.Context, box *statedir.Box, c *statedir.Config) error {
	if !c.PrivateGit {
		return nil
	}
	if err := (&gitBox{gits: g, box: box, config: c}).settleKilled(ctx); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "put right what a killed process has left in codebase %s: %w",
			c.CodebasePath, err)
	}
	return nil
}

// settleKilled is settleTemp unless another process is at work. Without a killed process it costs
// one system call. A codebase that is gone has nothing left in it.
func (b *gitBox) settleKilled(ctx context.Context) error {
	var st unix.Stat_t
	if unix.Lstat(b.tempFile(), &st) != nil || unix.Lstat(b.config.CodebasePath, &st) != nil {
		return nil
	}
	release, _, err := b.openArrivals(ctx)
	if err != nil {
		return err
	}
	release()
	step.Reached("git: settled")
	return nil
}
