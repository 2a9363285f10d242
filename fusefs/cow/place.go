package cow

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// place puts drafts in place, once their content is on the disk.
func (a *applying) place(first *change, drafts []*draft) {
	steps := make([]step, 0, len(drafts))
	for _, d := range drafts {
		s := step{Op: stepPlace, Dir: []byte(parentOf(d.Path)), Temp: []byte(d.temp), Name: []byte(d.name), New: d.object.Ino}
		if d.host != nil {
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
	for _, d := range drafts {
		a.reached("apply: next file")
		a.placeOne(d)
		if a.wrong != nil {
			return
		}
	}
	if err := a.undo.done(); err != nil {
		a.fail(first, err)
	}
}

// flush makes the content of drafts last through a power cut.
func flush(drafts []*draft) error {
	errs := make([]error, len(drafts))
	var wg sync.WaitGroup
	next := make(chan int, len(drafts))
	for i, d := range drafts {
		if d.object.isFile() {
			next <- i
		}
	}
	close(next)
	for range min(flushers, len(next)) {
		wg.Go(func() {
			for i := range next {
				f, err := openFile(drafts[i].dir, drafts[i].temp)
				if err == nil {
					err = errors.Join(unix.Fdatasync(int(f.Fd())), f.Close())
				} else if errors.Is(err, unix.EACCES) {
					err = nil // a file that its owner cannot read
				}
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// placeOne puts one draft in place, and looks at what it has replaced.
func (a *applying) placeOne(d *draft) {
	if o, err := look(d.dir, d.temp); err != nil || o == nil || !o.same(d.object) {
		a.conflict(d.change, errTempTaken.Error())
		return
	}
	if makesGit(d.dir, d.name) { // with another of the batch
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		d.Denied = becomesGit
		a.leave(d.change)
		return
	}
	if d.host == nil {
		err := unix.Renameat2(d.dir, d.temp, d.dir, d.name, unix.RENAME_NOREPLACE)
		if err != nil {
			_ = unix.Unlinkat(d.dir, d.temp, 0)
			a.treeFailed(d.change, err)
			return
		}
		a.placed(d)
		return
	}
	if err := unix.Renameat2(d.dir, d.temp, d.dir, d.name, unix.RENAME_EXCHANGE); err != nil {
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		a.treeFailed(d.change, err)
		return
	}
	a.reached("apply: file exchanged")
	out, err := look(d.dir, d.temp)
	if err != nil || out == nil {
		a.fail(d.change, errors.Join(err, unix.ESTALE))
		return
	}
	if !out.same(d.host) {
		if err := unix.Renameat2(d.dir, d.temp, d.dir, d.name, unix.RENAME_EXCHANGE); err != nil {
			a.fail(d.change, fmt.Errorf("put back what the host has changed meanwhile, which is %s now: %w", Quote(path.Join(parentOf(d.Path), d.temp)), err))
			return
		}
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		a.conflict(d.change, "changed on the host")
		return
	}
	if err := unix.Unlinkat(d.dir, d.temp, 0); err != nil {
		a.fail(d.change, err)
		return
	}
	a.placed(d)
}

// placed records that d is in place.
func (a *applying) placed(d *draft) {
	a.reached("apply: file in place")
	o, err := look(d.dir, d.name)
	if err != nil || o == nil {
		o = d.object // the host has changed it already: the record is that of ours
	}
	if o.Ino != d.object.Ino {
		o = d.object
	}
	a.rebase(d.change, o, d.digest)
	if a.state[d.change] == pending {
		a.finish(d.change)
	}
}
