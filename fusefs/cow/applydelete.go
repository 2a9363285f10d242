package cow

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// remove applies a deletion.
func (a *applying) remove(c *change) {
	dir, name, err := a.parent(c.Path)
	if errors.Is(err, unix.ENOENT) {
		a.deleted(c)
		return
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	defer unix.Close(dir)
	release, err := Claim(dir, name) // a file that the host has changed is restored
	if err != nil {
		a.treeFailed(c, err)
		return
	}
	defer release()
	host, err := statAt(dir, name)
	switch {
	case err != nil:
		a.fail(c, err)
		return
	case host == nil:
	case !c.recorded(): // also by force
		a.conflict(c, "made on the host")
		return
	case !host.unchanged(c.host):
		a.conflict(c, "changed on the host")
		return
	case host.isDir():
		if !a.removeTree(c, dir, name) {
			return
		}
	default:
		if !a.removeFile(c, dir, c.Path, name, host) {
			return
		}
	}
	a.deleted(c)
}

// deleted records that the host has nothing at c.Path any more.
func (a *applying) deleted(c *change) {
	a.reached("apply: deleted")
	delete(a.records, c.Path)
	if err := a.Log.Forget(c.Path); err != nil {
		a.fail(c, err)
		return
	}
	if c.whiteout != "" {
		a.removedWhiteouts = append(a.removedWhiteouts, c.whiteout)
	}
	a.finish(c)
}

// dropWhiteouts removes the whiteouts of the deletions that were applied. Until then the sandbox
// does not see half of one.
func (a *applying) dropWhiteouts() {
	if len(a.removedWhiteouts) == 0 {
		return
	}
	a.alone(func() {
		a.Layers.moved()
		for _, at := range a.removedWhiteouts {
			a.reached("apply: whiteout")
			if err := a.dropWhiteout(at); err != nil && a.failure == nil {
				a.failure = runtime.Errorf(runtime.ErrUnavailable, "apply %s: %w", Quote(at), err)
			}
		}
	})
}

// removeFile deletes the host's file called name in dir, which is at the path at and must be host.
// It first renames the file and then checks it, so that a file that another process has put there
// meanwhile is not lost.
func (a *applying) removeFile(c *change, dir int, at, name string, host *object) bool {
	temp := a.undo.temp()
	err := a.undo.begin(step{Op: stepRemove, Dir: []byte(parentOf(at)), Temp: []byte(temp), Name: []byte(name), Old: oldOf(host)})
	if err == nil {
		err = unix.Renameat2(dir, name, dir, temp, unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, unix.ENOENT) {
		return true
	}
	if err != nil {
		a.fail(c, err)
		return false
	}
	a.reached("apply: file taken away")
	o, err := statAt(dir, temp)
	switch {
	case err != nil:
		a.fail(c, err)
		return false
	case o == nil || !o.same(host):
		if err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE); err != nil {
			a.fail(c, fmt.Errorf("restore the file that the host changed meanwhile, now at %s: %w", Quote(temp), err))
			return false
		}
		a.conflict(c, "changed on the host")
		return false
	}
	if err := unix.Unlinkat(dir, temp, 0); err != nil {
		a.fail(c, err)
		return false
	}
	a.reached("apply: file deleted")
	return true
}

// removeBelow deletes the host's directory called name in parent, which is at the path at, with
// the recorded names below it, bottom-up. An unrecorded name ends it. The caller calls
// forgetRemoved.
func (a *applying) removeBelow(c *change, at string, parent int, name string) bool {
	dir, err := openDir(parent, name)
	if dir < 0 {
		if err != nil {
			a.fail(c, err)
			return false
		}
		a.conflict(c, "changed on the host")
		return false
	}
	var all []string
	err = names(dir, func(name string) error {
		if len(all) >= maxEntries {
			return errTooMany
		}
		all = append(all, name)
		return nil
	})
	ok := err == nil
	if err != nil {
		a.fail(c, err)
	}
	for _, name := range all {
		if !ok {
			break
		}
		ok = a.removeRecorded(c, join(at, name), dir, name)
	}
	unix.Close(dir)
	if !ok {
		return false
	}
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			a.conflict(c, "the host has made something in it")
			return false
		}
		a.fail(c, err)
		return false
	}
	return true
}

// removeRecorded deletes the entry called name in dir, at the path at, if the sandbox has deleted
// it too.
func (a *applying) removeRecorded(c *change, at string, dir int, name string) bool {
	o, err := statAt(dir, name)
	if err != nil {
		a.fail(c, err)
		return false
	}
	if o == nil {
		return true
	}
	if IsGit(name) {
		a.conflict(c, hasGit)
		return false
	}
	if a.Rules.Child(a.plan.state(parentOf(at)), name, o.isDir()) < perm.Write {
		a.conflict(c, "the host has something in it that the rules do not allow to delete")
		return false
	}
	rec, known := a.records[at]
	if !known || rec.Type == 0 {
		a.conflict(c, fmt.Sprintf("the host has made %s in it", Quote(at)))
		return false
	}
	if o.isDir() {
		if rec.Type != unix.S_IFDIR {
			a.conflict(c, fmt.Sprintf("the host has changed %s in it", Quote(at)))
			return false
		}
		if !a.removeBelow(c, at, dir, name) {
			return false
		}
	} else {
		same, err := a.matches(&rec, o, at)
		if err != nil {
			a.fail(c, err)
			return false
		}
		if !same && !a.force {
			a.conflict(c, fmt.Sprintf("the host has changed %s in it", Quote(at)))
			return false
		}
		if !a.removeFile(c, dir, at, name, o) {
			return false
		}
	}
	delete(a.records, at)
	a.removed = append(a.removed, at)
	return true
}

// forgetRemoved forgets the records of what removeBelow has deleted, and reports whether it could.
func (a *applying) forgetRemoved(c *change) bool {
	for _, at := range a.removed {
		if err := a.Log.Forget(at); err != nil {
			a.fail(c, err)
			return false
		}
	}
	a.removed = nil
	return true
}

// removeTree is removeBelow where the log may record the deletion at once.
func (a *applying) removeTree(c *change, dir int, name string) bool {
	removed := a.removeBelow(c, c.Path, dir, name)
	return a.forgetRemoved(c) && removed
}
