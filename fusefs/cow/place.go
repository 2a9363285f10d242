package cow

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// place puts drafts in place, once their content is on the disk.
func (a *applying) place(first *change, drafts []*draft) {
	steps := make([]step, 0, len(drafts))
	for _, d := range drafts {
		s := step{Op: stepPlace, Dir: []byte(parentOf(d.Path)), Temp: []byte(d.temp), Name: []byte(d.name), New: d.object.Ino}
		if d.host != nil && !d.host.isDir() {
			s.Op, s.Old = stepSwap, oldOf(d.host)
		}
		steps = append(steps, s)
	}
	err := a.undo.begin(steps...)
	if err == nil {
		err = errors.Join(flush(drafts), a.undo.flush())
	}
	if err != nil {
		a.fail(first, err)
		return
	}
	var placed []*draft
	for _, d := range drafts {
		if !a.canContinue() {
			break
		}
		a.reached("apply: next file")
		if a.placeOne(d) {
			if o, err := statAt(d.dir, d.name); err == nil && o != nil && o.same(d.object) {
				d.object = o // renamed; else the host has changed it already: the record is that of ours
			}
			a.reached("apply: file in place")
			placed = append(placed, d)
		}
	}
	if err := flushNames(placed); err != nil {
		a.fail(first, err)
		return
	}
	a.reached("apply: names flushed")
	for _, d := range placed {
		a.placed(d)
	}
	a.forgetRemoved(first)
	if a.failure != nil {
		return
	}
	if err := a.forgetSteps(); err != nil {
		a.fail(first, err)
	}
}

// flush makes the content of drafts last through a power cut.
func flush(drafts []*draft) error {
	var files []*draft
	for _, d := range drafts {
		if d.object.isFile() {
			files = append(files, d)
		}
	}
	return flushEach(files, func(d *draft) error {
		f, err := openFile(d.dir, d.temp)
		if errors.Is(err, unix.EACCES) {
			return nil // a file that its owner cannot read
		}
		if err != nil {
			return err
		}
		return errors.Join(unix.Fdatasync(int(f.Fd())), f.Close())
	})
}

// flushNames makes the names of drafts that are in place durable. The log, which says that they
// were applied, must not be on the disk before: a start would remove the sandbox's copies.
func flushNames(drafts []*draft) error {
	seen := map[string]bool{}
	var dirs []*draft // one of each directory
	for _, d := range drafts {
		if dir := parentOf(d.Path); !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, d)
		}
	}
	return flushEach(dirs, func(d *draft) error {
		fd, err := beneath.Open(d.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if errors.Is(err, unix.EACCES) {
			return nil // a directory that its owner cannot read
		}
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Fsync(fd); err != nil && !errors.Is(err, unix.EINVAL) { // a file system may not flush directories
			return err
		}
		return nil
	})
}

// flushEach calls f for each of all, some at a time.
func flushEach(all []*draft, f func(*draft) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	next := make(chan int, len(all))
	for i := range all {
		next <- i
	}
	close(next)
	for range min(flushers, len(all)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(all[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// placeOne puts one draft in place, and checks the object that it has replaced. It reports whether
// the draft stays there.
func (a *applying) placeOne(d *draft) bool {
	if o, err := statAt(d.dir, d.temp); err != nil || o == nil || !o.same(d.object) {
		a.conflict(d.change, errTempTaken.Error())
		return false
	}
	release, err := Claim(d.dir, d.name)
	if err != nil {
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		a.treeFailed(d.change, err)
		return false
	}
	defer release()
	if makesGit(d.dir, d.name) { // with another of the batch
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		d.Denied = becomesGit
		a.skip(d.change)
		return false
	}
	if d.host != nil && d.host.isDir() { // not before: until here the change can be left
		if !a.removeBelow(d.change, d.Path, d.dir, d.name) {
			_ = unix.Unlinkat(d.dir, d.temp, 0)
			return false
		}
		d.host = nil
	}
	if d.host == nil {
		err := unix.Renameat2(d.dir, d.temp, d.dir, d.name, unix.RENAME_NOREPLACE)
		if err != nil {
			_ = unix.Unlinkat(d.dir, d.temp, 0)
			a.treeFailed(d.change, err)
			return false
		}
		return true
	}
	if err := unix.Renameat2(d.dir, d.temp, d.dir, d.name, unix.RENAME_EXCHANGE); err != nil {
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		a.treeFailed(d.change, err)
		return false
	}
	a.reached("apply: file exchanged")
	out, err := statAt(d.dir, d.temp)
	if err != nil || out == nil {
		a.fail(d.change, errors.Join(err, unix.ESTALE))
		return false
	}
	if !out.same(d.host) {
		if err := unix.Renameat2(d.dir, d.temp, d.dir, d.name, unix.RENAME_EXCHANGE); err != nil {
			a.fail(d.change, fmt.Errorf("restore the file that the host changed meanwhile, now at %s: %w", Quote(path.Join(parentOf(d.Path), d.temp)), err))
			return false
		}
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		a.conflict(d.change, "changed on the host")
		return false
	}
	if err := unix.Unlinkat(d.dir, d.temp, 0); err != nil {
		a.fail(d.change, err)
		return false
	}
	return true
}

// placed records that d is in place.
func (a *applying) placed(d *draft) {
	a.rebase(d.change, d.object, d.digest)
	if a.state[d.change] == pending {
		a.finish(d.change)
	}
}
