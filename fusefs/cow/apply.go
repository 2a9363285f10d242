package cow

import (
	"cmp"
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitguard"
	"wolffia/runtime"
)

// An applying is one Apply.
type applying struct {
	*plan
	undo             *undoLog
	force            bool
	state            map[*change]outcome
	staged           []step   // directories that have a temporary name
	skippedDirs      []string // paths of directories that are skipped
	removedWhiteouts []string // paths of whiteouts whose deletion was applied

	removed []string // paths that removeBelow has deleted, whose records remain

	failure error // the first failure that is neither a conflict nor a denial; ends the work
}

type outcome uint8

const (
	pending outcome = iota
	applied
	skipped
)

// Apply makes changes in the host's directory: see runtime.Workspace. The upper layer keeps its
// copies of files, because they may be open in the sandbox. The log records that they were
// applied. The next Apply or Discard recovers from a crash during Apply.
func (l *Layers) Apply(o runtime.ApplyOptions) (*runtime.ApplyResult, error) {
	if err := l.Recover(); err != nil {
		return nil, err
	}
	p, err := l.reconciledPlan()
	if err != nil {
		return nil, err
	}
	some, err := p.withHunks(&o)
	if err != nil {
		return nil, err
	}
	a := &applying{plan: p, force: o.Force, staged: l.staged, state: map[*change]outcome{}}
	all := a.plan.withNeeded(some)
	conflict, denied := a.rule(all)
	refused := refusal(conflict, denied, o.Force)
	switch {
	case refused != nil && (!o.Force || o.DryRun && conflict+denied == 0):
		for _, c := range all {
			a.state[c] = skipped
		}
	case o.DryRun:
		for _, c := range all {
			if a.state[c] == pending {
				a.state[c] = applied
			}
		}
	default:
		if a.undo, err = l.newUndoLog(); err != nil {
			return nil, err
		}
		a.rebaseEqual()
		a.run(all)
		a.rebaseDirectories()
		err := errors.Join(l.forgetSteps(), l.Log.Sync())
		if a.failure == nil && err != nil {
			a.failure = err
		}
		conflict, denied = 0, 0
		for _, c := range all {
			if a.state[c] != applied && c.Conflict != "" {
				conflict++
			}
			if a.state[c] != applied && c.Denied != "" {
				denied++
			}
		}
		refused = refusal(conflict, denied, true)
		if a.failure != nil {
			refused = a.failure
		}
	}
	result := &runtime.ApplyResult{Applied: []runtime.Change{}, Left: []runtime.Change{}}
	for _, c := range all {
		if a.state[c] == applied {
			result.Applied = append(result.Applied, c.Change)
		} else {
			result.Left = append(result.Left, c.Change)
		}
	}
	return result, refused
}

// rule decides which changes are skipped, and returns how many are in conflict and how many are
// not allowed.
func (a *applying) rule(all []*change) (conflict, denied int) {
	for _, c := range all {
		switch {
		case a.orphaned(c):
			c.Unapplied = cmp.Or(c.Unapplied, "a directory above it is left out")
		case c.Unapplied != "":
			a.skip(c)
		case c.Denied != "":
			denied++
			a.skip(c)
		case c.Conflict != "":
			conflict++
			if !a.force {
				a.skip(c)
			}
		}
	}
	return conflict, denied
}

// refusal returns the error for changes that were not applied.
func refusal(conflict, denied int, force bool) error {
	switch {
	case conflict > 0 && force:
		return runtime.Errorf(runtime.ErrConflict, "changes left, since the host has changed the same: %d", conflict)
	case conflict > 0:
		return runtime.Errorf(runtime.ErrConflict, "changes in conflict with the host's own: %d; nothing was applied: apply others by their path, or overwrite with --force", conflict)
	case denied > 0 && force:
		return runtime.Errorf(runtime.ErrDenied, "changes left, since the rules do not allow them: %d", denied)
	case denied > 0:
		return runtime.Errorf(runtime.ErrDenied, "the rules do not allow %d of the changes, so nothing was applied: apply others by their path, or change the rules", denied)
	}
	return nil
}

// rebaseEqual records, for objects that are equal in both layers, that the host has them.
func (a *applying) rebaseEqual() {
	for _, c := range a.changes {
		if c.Kind != "" || !c.equal || c.host == nil || c.host.isDir() || c.rec != nil && c.rec.Applied && c.rec.Ino == c.host.Ino && c.rec.Mtime == c.host.mtime() && c.rec.Ctime == c.host.ctime() {
			continue
		}
		a.rebase(c, c.host, "")
	}
}

// rebaseDirectories records that directories which the sandbox has deleted and made again are the
// host's now, if all in them is: what the host makes in them later is no deletion of the sandbox's
// then.
func (a *applying) rebaseDirectories() {
	differ := map[string]bool{}
	for _, c := range a.changes {
		if c.Kind == "" || a.state[c] == applied {
			continue
		}
		for dir := parentOf(c.Path); dir != "" && !differ[dir]; dir = parentOf(dir) {
			differ[dir] = true
		}
	}
	for _, c := range a.changes {
		if a.failure == nil && c.Kind == "" && c.equal && c.host != nil && c.host.isDir() && !differ[c.Path] && (c.rec == nil || !c.rec.Applied) {
			a.rebase(c, c.host, "")
		}
	}
}

// rebase records that the host has o at c.Path, with the digest of its content if it is a file;
// empty: to be read from the upper layer.
func (a *applying) rebase(c *change, o *object, digest string) {
	r := RecordOf(c.Path, &o.Statx_t)
	r.Digest = digest
	if o.isFile() && digest == "" {
		var err error
		if r.Digest, err = a.digest(c); err != nil {
			a.fail(c, err)
			return
		}
	}
	if err := a.Log.Rebase(r); err != nil {
		a.fail(c, err)
	}
}

// digest returns the digest of c's content in the upper layer; none if it is the content of a file
// of the host's that this user may not read.
func (a *applying) digest(c *change) (string, error) {
	f, err := a.openUpper(c)
	if errors.Is(err, unix.EACCES) && c.upper.lower != "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	return Digest(f)
}

// fail ends the work with an error about c.
func (a *applying) fail(c *change, err error) {
	if a.failure == nil {
		a.failure = runtime.Errorf(runtime.ErrUnavailable, "apply %s: %w: the changes after it are left", Quote(c.Path), err)
	}
	a.skip(c)
}

// conflict skips c because the host has changed meanwhile.
func (a *applying) conflict(c *change, reason string) {
	c.Conflict = reason
	a.skip(c)
}

// finish records that c was applied.
func (a *applying) finish(c *change) { a.state[c] = applied }

// run applies those of all that are pending: directories, files, deletions, and then the modes of
// directories.
func (a *applying) run(all []*change) {
	var trees, files, deletions, modes []*change
	for _, c := range all {
		switch {
		case a.state[c] != pending:
		case c.Kind == runtime.ChangeDeleted:
			deletions = append(deletions, c)
		case isTree(c):
			trees = append(trees, c)
			if c.Kind != runtime.ChangeRenamed || c.setsMode {
				modes = append(modes, c)
			}
		case c.Type == runtime.TypeDirectory:
			modes = append(modes, c)
		default:
			files = append(files, c)
		}
	}
	a.makeTrees(trees)
	a.applyFiles(slices.DeleteFunc(files, a.orphaned))
	for _, c := range slices.Backward(deletions) {
		if !a.orphaned(c) && a.canContinue() {
			a.remove(c)
		}
	}
	a.dropWhiteouts()
	for _, c := range slices.Backward(modes) {
		if a.failure == nil && (a.state[c] == applied || c.Kind == runtime.ChangeMode) {
			a.setMode(c)
		}
	}
}

// canContinue reports whether Apply may continue: no step has failed, and no caller has stopped it.
func (a *applying) canContinue() bool {
	if a.failure == nil {
		a.failure = a.stopped()
	}
	return a.failure == nil
}

// skip skips c, and the changes below it.
func (a *applying) skip(c *change) {
	a.state[c] = skipped
	if isTree(c) {
		a.skippedDirs = append(a.skippedDirs, c.Path)
	}
}

// isTree reports whether c puts a directory where the host has none.
func isTree(c *change) bool {
	return c.Type == runtime.TypeDirectory && (c.Kind == runtime.ChangeAdded || c.Kind == runtime.ChangeType || c.Kind == runtime.ChangeRenamed)
}

// orphaned reports whether a directory above c was skipped, and skips c then.
func (a *applying) orphaned(c *change) bool {
	if !slices.ContainsFunc(a.skippedDirs, func(dir string) bool { return dir != c.Path && within(c.Path, dir) }) {
		return false
	}
	a.skip(c)
	return true
}

// parent opens the host's directory of a path. It returns an error if the directory was removed.
func (a *applying) parent(p string) (int, string, error) {
	dir, err := openDir(a.Root, parentOf(p))
	if err == nil && dir < 0 {
		err = unix.ENOENT
	}
	return dir, path.Base(p), err
}

// setMode gives a directory of the host's the mode that it has in the upper layer.
func (a *applying) setMode(c *change) {
	fd, err := openDir(a.Root, c.Path)
	if err == nil && fd < 0 {
		a.conflict(c, "moved or deleted on the host")
		return
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	defer unix.Close(fd)
	o, err := statAt(fd, "")
	if err == nil && (c.host == nil || !o.same(c.host)) {
		a.conflict(c, "replaced on the host")
		return
	}
	if err == nil {
		err = unix.Fchmodat(unix.AT_FDCWD, procPath(fd), c.NewMode|uint32(o.Mode)&unix.S_ISGID, 0)
	}
	if err == nil {
		o, err = statAt(fd, "")
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	a.rebase(c, o, "")
	if a.state[c] == pending {
		a.finish(c)
	}
}

// makesGit reports whether a new name would make the host's directory dir a git repository, by
// whose configuration git runs programs.
func makesGit(dir int, name string) bool {
	if !gitguard.Essential(name) {
		return false
	}
	return gitguard.Complete(func(s string) bool {
		if s == name {
			return true
		}
		o, err := statAt(dir, s)
		return o != nil || err != nil
	})
}

const becomesGit = "git on the host would take its directory for a repository"
