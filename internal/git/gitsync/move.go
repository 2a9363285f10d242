package gitsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"wolffia/internal/sys/statefile"
)

// move moves the host's references in one transaction, then HEAD and the index, and deletes
// references at last: HEAD may have left them. With locks it has the lock of the user's git, for
// the moves only: then the results that were computed without the lock must still hold, or the
// error is errAgain. After that, and ErrBusy, nothing has moved.
func (s *run) move(ctx context.Context, j *journal, locks bool) error {
	h := s.host
	first, last := roomFirst(j.Moves, j.Removed)
	text := commands(j.Moves)
	if r := s.out.branch(); locks && r != "" && !slices.ContainsFunc(slices.Concat(j.Moves, first), func(m move) bool { return m.Ref == r }) {
		text += "verify " + r + " " + cmp.Or(s.was, strings.Repeat("0", len(h.emptyTree()))) + "\n"
	}
	var held []move
	if len(j.Moves) > 0 && len(j.Stash) == 0 && s.tree == "" {
		held = s.held // with nothing that comes later they are not needed any more
		text += commands(held)
	}
	// The process starts before the lock is taken.
	feed := func(string) error { return nil }
	if text != "" {
		feed = h.startRefs(ctx)
	}
	var err error
	if locks {
		err = s.locked(ctx, j)
	}
	if err == nil {
		err = again(h.updateRef(ctx, first))
	}
	if err != nil {
		_ = feed("")
		return err
	}
	if err := again(feed(text)); err != nil {
		return err
	}
	s.held = s.held[len(held):]
	s.reached("refs")
	return h.finish(ctx, j, last)
}

// startRefs starts a transaction of references. feed writes its input; an empty input changes
// nothing.
func (h *host) startRefs(ctx context.Context) (feed func(input string) error) {
	in, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := h.feedRefs(ctx, in)
		_ = in.CloseWithError(io.ErrClosedPipe)
		done <- err
	}()
	return func(input string) error {
		_, _ = io.WriteString(w, input)
		_ = w.Close()
		return <-done
	}
}

// finish does what comes after the transaction.
func (h *host) finish(ctx context.Context, j *journal, last []move) error {
	if j.HeadNew != "" {
		if err := h.setHead(ctx, j.HeadNew, j.HeadOld); err != nil {
			return err
		}
	}
	h.pair.reached("head")
	if j.Index {
		if err := os.Rename(h.fitted(), h.file("index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	h.pair.reached("index")
	h.unlockIndex()
	h.pair.reached("unlocked")
	return h.updateRef(ctx, last)
}

// again returns errAgain if a reference has moved meanwhile.
func again(err error) error {
	if err != nil && strings.Contains(err.Error(), "cannot lock ref") {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// locked takes index.lock, and checks that HEAD and the index are as they were.
func (s *run) locked(ctx context.Context, j *journal) error {
	if err := s.host.lockIndex(ctx); err != nil {
		return err
	}
	head, err := s.host.own.head()
	if err != nil {
		return err
	}
	s.reached("locked")
	if head != j.HeadOld || j.Index && idOf(s.host.file("index")) != j.IndexID {
		return errAgain
	}
	return nil
}

// roomFirst returns those of removed that are in the place of a directory of one that is made, or
// the other way: they go first.
func roomFirst(moves, removed []move) (first, last []move) {
	made := newSpace(nil, false)
	for _, m := range moves {
		made.add(m.Ref)
	}
	for _, r := range removed {
		if made.placed(r.Ref) != "" {
			first = append(first, r)
		} else {
			last = append(last, r)
		}
	}
	return first, last
}

// storeStashes makes entries of the list of stashes, which has the newest first.
func (h *host) storeStashes(ctx context.Context, list []stash) error {
	if len(list) == 0 {
		return nil
	}
	have, err := h.common.stashes()
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(list) {
		if inList(have, e.At) {
			continue
		}
		if _, err := h.git(ctx, nil, "stash", "store", "-q", "-m", cmp.Or(e.Said, h.reflog()), e.At); err != nil {
			return err
		}
	}
	return nil
}

// dropStashes deletes entries of the list of stashes.
func (h *host) dropStashes(ctx context.Context, names []string) error {
	for _, at := range names {
		have, err := h.common.stashes() // read now: the user may stash meanwhile
		if err != nil {
			return err
		}
		n := slices.IndexFunc(have, func(e stash) bool { return e.At == at })
		if n < 0 {
			continue
		}
		if _, err := h.git(ctx, nil, "stash", "drop", "-q", "stash@{"+strconv.Itoa(n)+"}"); err != nil {
			return err
		}
	}
	return nil
}

// rollback ends a sync before its transaction.
func (h *host) rollback(ctx context.Context, held []move) error {
	h.unlockIndex()
	err := remove(h.fitted())
	if err == nil {
		err = h.pair.drop(journalFile)
	}
	return errors.Join(err, h.updateRef(ctx, held))
}

// repair finishes a sync that was killed after it had begun its moves. It removes the files of one
// that was killed before.
func (h *host) repair(ctx context.Context) error {
	var j journal
	have, err := h.pair.load(journalFile, &j)
	if err != nil {
		return err
	}
	if !have {
		h.unlockIndex()
		for _, f := range []string{h.fitted(), h.fitted() + ".lock", h.fitted() + ".text"} {
			_ = os.Remove(f)
		}
		return nil
	}
	now, err := h.table(ctx)
	if err != nil {
		return err
	}
	_, err = os.Lstat(h.fitted())
	if moved := j.Index && errors.Is(err, fs.ErrNotExist); !moved && !j.begun(now) { // the index is last
		return h.rollback(ctx, h.pair.held(now))
	}
	// The user may have made changes, after removing the lock.
	if now.Head != j.HeadOld {
		j.HeadNew = ""
	}
	if j.Index && idOf(h.file("index")) != j.IndexID {
		j.Index = false
		_ = os.Remove(h.fitted())
	}
	left := slices.DeleteFunc(j.Removed, func(m move) bool { return now.Refs[m.Ref] != m.Old })
	if err := h.finish(ctx, &j, left); err != nil {
		return err
	}
	return h.complete(ctx, &j, h.pair.held(now))
}

// complete does what comes after the moves, and removes the journal.
func (h *host) complete(ctx context.Context, j *journal, held []move) error {
	if err := h.storeStashes(ctx, j.Stash); err != nil {
		return err
	}
	if err := h.dropStashes(ctx, j.Dropped); err != nil {
		return err
	}
	if err := h.SyncRefs(j.files()); err != nil {
		return err
	}
	// Without its time on the disk: after a crash of the machine both sides are found to be equal.
	if err := statefile.Write(h.pair.path(stateFile), &j.After); err != nil {
		return err
	}
	h.pair.reached("base saved")
	if err := h.updateRef(ctx, held); err != nil {
		return err
	}
	return h.pair.drop(journalFile)
}

// files returns the files of the common directory that the moves have written.
func (j *journal) files() (names []string) {
	for _, m := range j.Moves {
		names = append(names, m.Ref)
	}
	if len(j.Removed) > 0 {
		names = append(names, "packed-refs")
	}
	if j.HeadNew != "" {
		names = append(names, "HEAD")
	}
	return names
}

// begun reports whether the moves have begun: the transaction moves all references or none.
func (j *journal) begun(now table) bool {
	for _, m := range j.Moves {
		if now.Refs[m.Ref] == m.New && m.New != m.Old {
			return true
		}
	}
	return j.HeadNew != "" && now.Head == j.HeadNew || len(j.Moves) == 0 && len(j.Removed) > 0 && j.HeadNew == "" && !j.Index
}
