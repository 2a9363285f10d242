package reposync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
)

// A codebase is the host's, open: git directories are made and removed in it. No other process
// does so for the sandbox until it is closed.
type codebase struct {
	*sides
	root   *os.File
	unlock func()
}

// openCodebase opens the codebase, and puts right what a killed process has left.
func (s *sides) openCodebase(ctx context.Context) (*codebase, error) {
	dir := s.bases()
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalWait,
		fmt.Errorf("another wolffia process uses %s", dir))
	defer cancel()
	unlock, err := filelock.Flock(ctx, dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenFile(s.config.CodebasePath, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		unlock()
		return nil, err
	}
	c := &codebase{s, root, unlock}
	if err := c.settleTemp(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close lets other processes in.
func (c *codebase) close() {
	_ = c.root.Close()
	c.unlock()
}

// settleKilled is settleTemp unless another process is at work. Without a killed process it costs
// one system call. A codebase that is gone has nothing left in it.
func (s *sides) settleKilled(ctx context.Context) error {
	var st unix.Stat_t
	if unix.Lstat(s.tempFile(), &st) != nil || unix.Lstat(s.config.CodebasePath, &st) != nil {
		return nil
	}
	c, err := s.openCodebase(ctx)
	if err != nil {
		return err
	}
	c.close()
	step.Reached("git: settled")
	return nil
}

// A temp says what has the temporary name of a sandbox in the codebase. It is on the disk
// before something has that name, and until nothing has it any more: so a killed process leaves
// nothing there for long, and what is not wolffia's is not touched.
type temp struct {
	// Back is the absolute path of the git directory that gets its name back: it may be the
	// user's. "" is one that is removed: it is half made, or half removed.
	Back string `json:"back,omitempty"`
}

// tempName is the name in the top of the codebase, which no sandbox with a tree server can use, of
// a git directory that is being made or removed.
func (s *sides) tempName() string { return cow.TempPrefix + "git-" + s.rec.ID() }

func (s *sides) tempFile() string {
	return filepath.Join(statedir.Git(s.rec.Run()), statedir.GitTemp)
}

// claimTemp records what is about to have the temporary name. It is an error if something has it.
func (c *codebase) claimTemp(t temp) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(c.root.Fd()), c.tempName(), &st, unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(
			fmt.Errorf("%s is in the way: rename or remove it", filepath.Join(c.root.Name(), c.tempName())), err)
	}
	return c.recordTemp(t)
}

// recordTemp records what has the temporary name.
func (c *codebase) recordTemp(t temp) error {
	err := statefile.WriteSync(c.tempFile(), &t)
	if err == nil {
		err = c.rec.Git().Give(c.config, c.tempFile())
	}
	return err
}

// dropTemp removes what has the temporary name, and the record.
func (c *codebase) dropTemp() error {
	if err := rmtree.Remove(c.root, c.tempName()); err != nil {
		return err
	}
	return c.forgetTemp()
}

// forgetTemp removes the record: nothing has the temporary name any more.
func (c *codebase) forgetTemp() error {
	if err := os.Remove(c.tempFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// settleTemp does what a killed process could not do with the temporary name. The caller has the
// lock of openCodebase.
func (c *codebase) settleTemp() error {
	var t temp
	err := statefile.Read(c.tempFile(), &t)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case t.Back == "":
		return c.dropTemp()
	}
	to, err := c.openAbove(t.Back)
	if err == nil {
		err = unix.Renameat2(int(c.root.Fd()), c.tempName(), int(to.Fd()), filepath.Base(t.Back), unix.RENAME_NOREPLACE)
		_ = to.Close()
	}
	if err != nil && !(to != nil && errors.Is(err, fs.ErrNotExist)) { // it had not been moved yet
		return fmt.Errorf("%s is in %s, and cannot be moved back: %w",
			t.Back, filepath.Join(c.root.Name(), c.tempName()), err)
	}
	return c.forgetTemp()
}

// openAbove opens the directory that is to have the git directory at an absolute path. modules and
// worktrees are made.
func (c *codebase) openAbove(path string) (*os.File, error) {
	above := filepath.Dir(path)
	rel, err := filepath.Rel(c.root.Name(), above)
	if err != nil {
		return nil, err
	}
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return openOuter(above)
	}
	return openMade(c.root, rel)
}
