package gitsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/hostgit"
)

// lockWait is how long a sync waits for the index of the user's git, and lockPoll how often it
// looks.
const (
	lockWait = 5 * time.Second
	lockPoll = 5 * time.Millisecond
)

// fitted returns the path of the index that is to become the host's.
func (h *host) fitted() string { return h.file("index.wolffia." + h.pair.Name) }

// lockText is the content of an index.lock that is a sync's.
func (h *host) lockText() string { return "wolffia " + h.pair.Name + "\n" }

// treeOf returns the tree of a commit; "" has the empty one.
func (h *host) treeOf(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		return h.emptyTree(), nil
	}
	objects, err := h.ask(ctx)
	if err != nil {
		return "", err
	}
	o, err := objects.Get(commit+"^{tree}", 0)
	if err != nil {
		return "", fmt.Errorf("the tree of %.12s: %w", commit, err)
	}
	return o.Name, nil
}

// checkTrees checks what the tree now adds to a working tree of the tree was. The error is a
// blockedError if it must not be there.
func (h *host) checkTrees(ctx context.Context, was, now string) error {
	from, to := was, now
	if to == "" || to == from || to == h.emptyTree() {
		return nil
	}
	if from == h.emptyTree() {
		from = ""
	}
	objects, err := h.ask(ctx)
	if err != nil {
		return err
	}
	get := func(name string) (hostgit.Object, error) { return objects.Get(name, maxTree) }
	c := compare(get, cmp.Or(h.pair.names, maxNames))
	if _, err := c.added(from, to, "", 0); err != nil {
		return err
	}
	if h.pair.Hidden == nil || h.pair.Worktree == "" {
		return nil
	}
	return h.checkHidden(ctx, c, from, to)
}

// checkHidden refuses a name that the rules hide and that is on the host without being tracked:
// the user's next commit -a would put its content where the sandbox reads it.
func (h *host) checkHidden(ctx context.Context, c *comparison, from, to string) error {
	top, err := os.OpenFile(h.pair.Worktree, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	var there []string
	err = c.walk(from, to, "", func(path string) error {
		if !h.pair.Hidden(path) {
			return nil
		}
		_, err := tree{top}.lstat(path)
		switch {
		case err == nil:
			there = append(there, path)
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR):
			return blockedf("a commit adds %s, which the rules hide: %v", hostgit.Printable(path), err)
		}
		return nil
	})
	if err != nil || len(there) == 0 {
		return err
	}
	out, err := h.git(ctx, nil, "ls-files", "-z")
	if err != nil {
		return err
	}
	tracked := "\x00" + string(out)
	for _, path := range there {
		if !strings.Contains(tracked, "\x00"+path+"\x00") {
			return blockedf("a commit adds %s, which the rules hide and which is here, not tracked", hostgit.Printable(path))
		}
	}
	return nil
}

// fit makes the host's new index for a HEAD that has moved from one commit to another. The user's
// staged changes stay, with all flags, and the times of files that do not change. tree replaces
// the staged tree; "" keeps it. id is the index that it was made of. made is false if the present
// one is right. The error is a blockedError if the user has staged a file that changes.
func (h *host) fit(ctx context.Context, was, now, tree string) (id fileID, made bool, err error) {
	from, err := h.treeOf(ctx, was)
	if err != nil {
		return fileID{}, false, err
	}
	to, err := h.treeOf(ctx, now)
	if err != nil {
		return fileID{}, false, err
	}
	for _, target := range []string{to, tree} {
		if err := h.checkTrees(ctx, from, target); err != nil {
			return fileID{}, false, err
		}
	}
	id = idOf(h.file("index"))
	if from == to && tree == "" || h.pair.Worktree == "" {
		return id, false, nil
	}
	index, err := h.openIndex()
	if err != nil {
		return id, false, err
	}
	var times []unix.Timespec
	if index != nil {
		times, err = copyIndex(index, h.fitted(), h.Own)
		_ = index.Close()
	}
	if err != nil {
		return id, false, err
	}
	env := []string{h.indexFile(h.fitted())}
	if tree != "" { // then the index has nothing that the sandbox did not know
		var out []byte
		if out, err = h.git(ctx, env, "write-tree"); err == nil {
			_, err = h.git(ctx, env, "read-tree", "-i", "-m", strings.TrimSpace(string(out)), tree)
		}
	} else {
		_, err = h.git(ctx, env, "read-tree", "-i", "-m", from, to)
	}
	if err == nil && times != nil {
		// git compares the index's time with those of files: with a new one a file that was
		// changed in the same tick would be taken for unchanged.
		err = unix.UtimesNanoAt(unix.AT_FDCWD, h.fitted(), times, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		_ = os.Remove(h.fitted())
		if ctx.Err() != nil {
			return id, false, err
		}
		return id, false, blockedf("the index has changes of yours in the same files (%s)", inTheWay(err))
	}
	return id, true, nil
}

// inTheWay returns the path that git read-tree reports to be in the way.
func inTheWay(err error) string {
	_, said, is := strings.Cut(err.Error(), "error: ")
	if !is {
		_, said, _ = strings.Cut(err.Error(), "fatal: ")
	}
	said, _, _ = strings.Cut(said, ": exit status")
	said, _, _ = strings.Cut(said, "; ")
	if name, is := strings.CutPrefix(said, "Entry '"); is {
		name, _, _ = strings.Cut(name, "'")
		return name
	}
	return said
}

// openIndex opens the host's index; nil: the host has none. git replaces it as a whole: the opened
// file stays as it is.
func (h *host) openIndex() (*os.File, error) {
	f, err := os.OpenFile(h.file("index"), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// copyIndex copies an index, and returns its times. own, if any, gives the copy to its owner.
func copyIndex(src *os.File, to string, own func(*os.File) error) ([]unix.Timespec, error) {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return nil, err
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(st.Mode).Perm())
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(dst, src)
	if own != nil {
		err = errors.Join(err, own(dst))
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(to))
	}
	return []unix.Timespec{st.Atim, st.Mtim}, nil
}

// lockIndex takes the lock with which git changes its index. The lock has its text from the
// beginning: after a kill it can be told from git's own.
func (h *host) lockIndex(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.pair.wait, lockWait))
	defer cancel()
	lock, text := h.file("index.lock"), h.fitted()+".text"
	if err := os.WriteFile(text, []byte(h.lockText()), 0o644); err != nil {
		return err
	}
	defer func() {
		if other := os.Remove(text); !errors.Is(other, fs.ErrNotExist) {
			err = errors.Join(err, other)
		}
	}()
	for {
		err := unix.Renameat2(unix.AT_FDCWD, text, unix.AT_FDCWD, lock, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on each file system
			err = os.Link(text, lock)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if !pause(ctx, lockPoll) {
			return fmt.Errorf("git is running on the host (%s exists): %w", filepath.Join(h.Name(), "index.lock"), ErrBusy)
		}
	}
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// unlockIndex releases the lock, if it is a sync's of this sandbox.
func (h *host) unlockIndex() {
	if b, err := os.ReadFile(h.file("index.lock")); err == nil && string(b) == h.lockText() {
		_ = os.Remove(h.file("index.lock"))
	}
}
