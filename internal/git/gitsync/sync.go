package gitsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"wolffia/internal/git/hostgit"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
)

const (
	// otherWait is how long a sync waits for another one of the same repository.
	otherWait = 10 * time.Second
	// quietWait is how long it waits for git to release its locks, and oldLock the age from which
	// on a lock inside is that of a killed git.
	quietWait = 2 * time.Second
	oldLock   = time.Minute
	// maxTries is how often it begins again because a git on one side makes changes meanwhile.
	maxTries = 5
	// maxReads is how often it reads the sandbox's state because git inside changes it meanwhile.
	maxReads = 3
)

// errAgain is the error of a plan whose premises do not hold any more.
var errAgain = errors.New("git keeps changing the repository")

// Sync brings both sides to the same state, as far as neither loses something by it. It needs
// Begin to have been called, once, when the private copy was made. A sync of two sides that have
// not changed since the last one costs some calls of stat, and runs no program inside.
//
// The error is [ErrBusy] if git runs on either side for longer than some seconds, of class
// runtime.ErrInvalid if the repository cannot be synchronised (such as one with reftable), and of
// class runtime.ErrUnavailable if the host has no git. After an error the report has Pending, and
// the changes until then. A process that is killed during Sync leaves a state that the next Sync
// repairs.
func (p *Pair) Sync(ctx context.Context) (r Report, err error) {
	defer func() {
		if err != nil {
			r.Pending = hostgit.Printable(err.Error())
		}
	}()
	private, err := p.openPrivate(p.Private)
	if err != nil {
		return r, err
	}
	defer private.Close()
	if r, same := p.Unchanged(); same && !p.interrupted() {
		return r, nil
	}
	h, release, err := p.lock(ctx)
	if err != nil {
		return r, err
	}
	defer release()
	defer h.close()
	var moved bool
	var said []string
	for range maxTries {
		s := &run{Pair: p, host: h, private: private, moved: moved, said: said, done: said}
		if r, err = s.once(ctx); !errors.Is(err, errAgain) {
			return r, err
		}
		moved, said = s.moved, s.done
	}
	return r, fmt.Errorf("%w: %w", err, ErrBusy)
}

// lock opens the host's repository, and keeps other syncs from it until release is called.
func (p *Pair) lock(ctx context.Context) (h *host, release func(), err error) {
	if h, err = p.openHost(ctx); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	late := fmt.Errorf("another sync of %s is running: %w", h.Name(), ErrBusy)
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.wait, otherWait), late)
	defer cancel()
	release, err = filelock.Flock(ctx, h.Common())
	return h, release, err
}

// interrupted reports whether a killed sync has left a journal.
func (p *Pair) interrupted() bool {
	_, err := os.Lstat(p.path(journalFile))
	return err == nil
}

// A run is one try of a sync.
type run struct {
	*Pair
	host    *host
	private tree

	seen     stamp  // of the private copy, at the last look
	version  string // of its index, as it was read
	headRead string // its HEAD, as it was read
	unsteady bool   // git inside changed it each time that it was read

	rec        record            // the last sync's, and then this one's
	base       table             // of the last sync, without the references of other pairs, as in and out
	in         inside            // without refused objects
	all        map[string]string // references inside, with refused ones
	out        table             // the host's
	outStash   []stash
	insideBusy string
	hostBusy   string
	theirs     map[string]bool   // branches that are left to others
	bad        map[string]string // objects that are refused
	held       []move            // references that hold objects
	said       []string          // of this sync alone
	done       []string          // what of it has happened
	stays      []string          // while it holds
	pending    string
	moved      bool

	plan    answer
	was     string // commits of the host's HEAD
	will    string
	head    string // what the host's HEAD becomes
	tree    string // the tree to stage on the host; "" keeps the present one
	indexID fileID
	ours    bool // the host's staged tree is the one that the sandbox had staged
	stages  bool // the sync stages the sandbox's staged tree there
	fitted  bool // the file index.wolffia.NAME exists
	newest  []stash
	index   *os.File // of the host, after it; nil: none
	hostSet string   // the tree that is staged there
}

func (s *run) once(ctx context.Context) (Report, error) {
	defer func() {
		if s.fitted {
			_ = os.Remove(s.host.fitted())
		}
		if s.index != nil {
			_ = s.index.Close()
		}
	}()
	if err := s.host.repair(ctx); err != nil {
		return s.report(), err
	}
	hostAt, insideAt, taken, err := s.quiet(ctx)
	s.seen = insideAt
	for _, step := range []func(context.Context) error{s.read, s.objects, s.decide, s.commit, s.refresh} {
		if err == nil {
			err = step(ctx)
		}
	}
	if errors.Is(err, errNoGit) {
		s.stays, err = append(s.stays, fmt.Sprintf("the files of %s stay inside: %v", s.Dir, err)), nil
	}
	r := s.report()
	switch {
	case err != nil:
		return r, err
	case r.Moved || len(s.said) > 0 || len(s.bad) > 0: // git may have refused objects for lack of space
		return r, s.drop(stampFile)
	}
	return r, s.mark(hostAt, insideAt, taken, r)
}

func (s *run) report() Report {
	return Report{Moved: s.moved, Said: oneLine(s.said...), Stays: oneLine(s.stays...), Pending: oneLine(s.pending)[0]}
}

// oneLine returns texts that may have names of the sandbox as they can be printed.
func oneLine(texts ...string) (lines []string) {
	for _, text := range texts {
		lines = append(lines, strings.ReplaceAll(hostgit.Printable(text), "\n", " "))
	}
	return lines
}

// quiet waits until git has no lock on either side, and returns the stamps of both.
func (s *run) quiet(ctx context.Context) (host, in stamp, taken time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.wait, quietWait))
	defer cancel()
	for {
		taken = time.Now()
		if host, in, err = s.takeStamps(s.private); err != nil {
			return host, in, taken, err
		}
		if in.fifo != "" {
			return host, in, taken, fmt.Errorf("git inside would wait at a FIFO in %s (%s): remove it", s.Dir,
				strings.TrimPrefix(in.fifo, s.Private+"/"))
		}
		where, lock := "on the host", host.lock
		if lock == "" {
			where, lock = "inside", in.lock
		}
		if st, err := os.Lstat(lock); lock == "" || where == "inside" && err == nil && time.Since(st.ModTime()) > oldLock {
			return host, in, taken, nil
		}
		if !pause(ctx, lockPoll) {
			return host, in, taken, fmt.Errorf("git is running %s (%s exists): %w", where, lock, ErrBusy)
		}
	}
}

// read reads the tables of both sides, and the record.
func (s *run) read(ctx context.Context) (err error) {
	have, err := s.load(stateFile, &s.rec)
	if err != nil {
		return err
	}
	if !have {
		return fmt.Errorf("%s does not exist: the private copy was not recorded", s.path(stateFile))
	}
	if err := s.readInside(ctx); err != nil {
		return err
	}
	if s.in.late {
		s.stays = append(s.stays, "the staged changes stay inside: git takes too long to compare it")
	}
	s.all = maps.Clone(s.in.Refs)
	if s.out, err = s.host.table(ctx); err != nil {
		return err
	}
	s.base = s.rec.Base
	s.theirs = s.others()
	s.exclude(s.theirs)
	if s.Common != "" {
		s.in.stashes = nil
	} else if s.outStash, err = s.host.common.stashes(); err != nil {
		return err
	}
	s.hostBusy = busy(s.host.own)
	if s.insideBusy != "" {
		s.pending = s.insideBusy + " is in progress in the sandbox"
	}
	if s.rec.StagedUnknown {
		// The index of the copy was not changed yet when it was kept.
		if s.rec.Staged, err = s.host.staged(ctx, s.rec.Base.at(), s.path(indexBase)); err != nil {
			s.rec.Staged = s.in.staged
		}
		s.rec.StagedUnknown = false
	}
	s.rec.Index = unsettled // until this sync has ended
	if s.in.staged == unmerged && !s.in.late && s.insideBusy == "" {
		s.stays = append(s.stays, "the staged changes stay inside: files have conflicts")
	}
	return nil
}

// readInside reads the sandbox's state. A git that runs there meanwhile can make it a mixture of
// two states: then readInside reads it again. If git continues to change it, branches cross, each
// of which had the commit that was read. HEAD and the index do not cross then.
func (s *run) readInside(ctx context.Context) (err error) {
	for range maxReads {
		s.version = s.private.indexVersion()
		if s.in, err = s.inside(ctx, s.private, s.host.emptyTree()); err != nil {
			return err
		}
		s.headRead, s.insideBusy = s.in.Head, busy(s.private)
		if s.unsteady = s.changing(); !s.unsteady || s.in.late {
			break
		}
	}
	if s.unsteady {
		s.onlyBranches()
	}
	return nil
}

// onlyBranches keeps HEAD and the staged changes inside in this sync.
func (s *run) onlyBranches() {
	s.unsteady, s.in.staged, s.insideBusy = true, s.rec.Staged, cmp.Or(s.insideBusy, "a git command")
}

// changing reports whether the private copy was changed since the last look.
func (s *run) changing() bool {
	was := s.seen.sum
	now, err := s.stampInside(s.private)
	s.seen = now
	return err != nil || now.sum != was
}

// objects brings the objects that the sandbox's references need to the host, and takes those that
// are refused out of the sandbox's table.
func (s *run) objects(ctx context.Context) error {
	s.reached("before objects")
	if s.insideBusy == "" && s.in.staged != s.rec.Staged && s.in.staged != unmerged {
		tree, err := s.writeTree(ctx)
		if err != nil {
			return err
		}
		if s.tree = tree; s.changing() {
			s.tree = ""
			s.onlyBranches()
		}
	}
	tips, commits := make(map[string]bool), make(map[string]bool)
	var has []string
	for r, at := range s.in.Refs {
		if kind(r) == "" || at == s.rec.Base.Refs[r] || at == s.out.Refs[r] {
			continue
		}
		tips[at] = true
		if kind(r) == heads {
			commits[at] = true
		}
	}
	if len(tips) > maxMoves {
		return errMoves
	}
	if s.insideBusy == "" && s.in.branch() == "" && s.in.Head != s.rec.Base.Head {
		tips[s.in.Head], commits[s.in.Head] = true, true
	}
	if s.tree != "" {
		tips[s.tree] = true
		if at := s.out.at(); at != "" { // git takes nothing of a commit's tree for known to who asks for a tree
			has = append(has, at+"^{tree}")
		}
	}
	for _, e := range s.in.stashes {
		if !slices.Contains(s.rec.Stash, e.At) && !inList(s.outStash, e.At) {
			s.newest = append(s.newest, e)
			tips[e.At], commits[e.At] = true, true
		}
	}
	var err error
	if s.held, s.bad, err = s.host.take(ctx, slices.Sorted(maps.Keys(tips)), s.out, has...); err != nil {
		return err
	}
	if err := s.host.onlyCommits(ctx, commits, s.bad); err != nil {
		return err
	}
	s.refuse()
	return s.lfs()
}

func inList(list []stash, at string) bool {
	return slices.ContainsFunc(list, func(e stash) bool { return e.At == at })
}

// refuse gives references whose objects are refused the value that both sides had.
func (s *run) refuse() {
	if len(s.bad) == 0 {
		return
	}
	for _, r := range slices.Sorted(maps.Keys(s.in.Refs)) {
		reason := s.bad[s.in.Refs[r]]
		if reason == "" || kind(r) == "" {
			continue
		}
		s.refused(r+" stays inside", reason)
		if base := s.rec.Base.Refs[r]; base != "" {
			s.in.Refs[r] = base
		} else if delete(s.in.Refs, r); s.in.Head == r {
			s.in.Head = s.rec.Base.Head
		}
	}
	if reason := s.bad[s.in.Head]; reason != "" {
		s.refused("HEAD stays", reason)
		s.in.Head = s.rec.Base.Head
	}
	if reason := s.bad[s.tree]; reason != "" {
		s.refused("the staged changes stay inside", reason)
		s.tree = ""
	}
	s.newest = slices.DeleteFunc(s.newest, func(e stash) bool {
		reason := s.bad[e.At]
		if reason != "" {
			s.refused("a stash stays inside", reason)
		}
		return reason != ""
	})
}

func (s *run) refused(what, reason string) {
	s.stays = append(s.stays, what+": "+reason)
	s.pending = what + ": " + reason
}

// decide plans the moves, and computes the host's index for them. What the index does not permit
// is planned again without it.
func (s *run) decide(ctx context.Context) (err error) {
	s.reached("objects")
	q := question{
		base: s.base, inside: s.in.table, host: s.out,
		ancestor: func(old, of string) bool { return s.host.ancestor(ctx, old, of) },
		name:     s.Name, blocked: s.host.blocked(s.out, s.hostBusy), exported: s.rec.Exported,
		insideBusy: s.insideBusy, hostBusy: s.hostBusy, remotes: s.host.Remotes(),
		folded: s.host.Config("core.ignorecase") == "true",
	}
	var note string
	for {
		if s.plan, err = plan(q); err != nil {
			return err
		}
		s.was, s.head = s.out.at(), cmp.Or(s.plan.headOut, s.out.Head)
		s.will = table{Refs: s.out.after(s.plan.out), Head: s.head}.at()
		moves := s.plan.headOut != "" || s.was != s.will
		wants := s.tree
		if s.hostBusy != "" || s.will != s.in.at() || s.head != s.in.Head {
			wants = ""
		}
		if wants != "" || s.unsteady && moves {
			set, err := s.host.staged(ctx, s.was, s.host.file("index"))
			if err != nil {
				return err
			}
			s.ours = set == s.rec.Staged
			if wants != "" && set != "" && !s.ours && set != s.in.staged {
				wants, note = "", "the staged changes stay inside: you have staged changes here"
			}
			if set == s.in.staged && s.was == s.will {
				wants = "" // as it is
			}
		}
		if !moves && wants == "" {
			break
		}
		s.indexID, s.fitted, err = s.host.fit(ctx, s.was, s.will, wants)
		s.stages = wants != "" && err == nil
		reason, is := errors.AsType[blockedError](err)
		switch {
		case err == nil:
		case !is:
			return err
		case !moves:
			note, s.tree = "the staged changes stay inside: "+reason.reason, ""
			continue
		case wants != "":
			s.tree = ""
			continue
		default:
			for _, r := range []string{q.host.branch(), s.head} {
				if kind(r) != "" {
					q.blocked[r] = reason.reason
				}
			}
			if q.blocked["HEAD"] != "" { // so it was not that
				return err
			}
			q.blocked["HEAD"] = reason.reason
			continue
		}
		break
	}
	if note != "" {
		s.stays = append(s.stays, note)
	}
	s.said = append(s.said, s.plan.said...)
	s.stays = append(s.stays, s.plan.stays...)
	return nil
}

// commit moves the host's references, HEAD and index.
func (s *run) commit(ctx context.Context) error {
	after := s.out.after(s.plan.out)
	j := journal{HeadOld: s.out.Head, HeadNew: s.plan.headOut, Index: s.fitted, IndexID: s.indexID, Stash: s.newest}
	for _, m := range s.plan.out {
		if m.New == "" {
			j.Removed = append(j.Removed, m)
		} else {
			j.Moves = append(j.Moves, m)
		}
	}
	exported := make(map[string]export)
	for r, m := range s.plan.aside {
		exported[r] = export{m.Ref, m.New}
		if m.New != m.Old {
			j.Moves = append(j.Moves, m)
		}
	}
	for r, e := range s.rec.Exported {
		if _, again := s.plan.aside[r]; again || s.out.Refs[e.To] != e.At {
			continue
		}
		// The branch has what went aside: the other one has done its work.
		if at := after[r]; at != "" && (at == s.in.Refs[r] || s.host.ancestor(ctx, e.At, at)) {
			j.Removed = append(j.Removed, move{Ref: e.To, Old: e.At})
		} else {
			exported[r] = e
		}
	}
	for _, at := range s.rec.Ours {
		if !inList(s.in.stashes, at) && inList(s.outStash, at) && slices.Contains(s.rec.Stash, at) {
			j.Dropped = append(j.Dropped, at)
		}
	}
	s.rec.Exported = exported
	s.rec.Ours = slices.DeleteFunc(s.rec.Ours,
		func(at string) bool { return !inList(s.in.stashes, at) && !inList(s.outStash, at) })
	for _, e := range slices.Backward(s.newest) { // both sides have them now, whatever becomes of the refresh
		s.rec.Ours, s.rec.Stash = append(s.rec.Ours, e.At), slices.Insert(s.rec.Stash, 0, e.At)
	}
	s.updateBase()
	j.After = s.rec
	if len(j.Moves)+len(j.Removed)+len(j.Stash)+len(j.Dropped) > 0 || j.HeadNew != "" || j.Index {
		if err := s.carryOut(ctx, &j); err != nil {
			return err
		}
		s.moved = true
	} else if err := s.host.updateRef(ctx, s.held); err != nil {
		return err
	}
	var err error
	if s.index, err = s.host.openIndex(); err != nil {
		return err
	}
	index := s.host.file("index")
	if s.index != nil && !s.host.Foreign() { // the user may stage more meanwhile: the sandbox must get the index that was compared
		index = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.index.Fd())
	}
	s.hostSet, err = s.host.staged(ctx, s.will, index)
	return err
}

// updateBase sets the base to the references that both sides have after the moves on the host.
func (s *run) updateBase() {
	s.rec.Base.Refs = maps.Clone(s.rec.Base.Refs)
	for r, at := range s.plan.agreed {
		if s.rec.Base.Refs[r] = at; at == "" {
			delete(s.rec.Base.Refs, r)
		}
	}
	if s.head == s.in.Head {
		s.rec.Base.Head = s.head
	}
	if s.stages {
		s.rec.Staged = s.in.staged
	}
}

// carryOut carries out the journal.
func (s *run) carryOut(ctx context.Context, j *journal) error {
	h := s.host
	if err := statefile.WriteSync(s.path(journalFile), j); err != nil {
		return err
	}
	s.reached("journal")
	locks := j.Index || j.HeadNew != "" || s.was != s.will
	ctx = context.WithoutCancel(ctx) // moves that have begun must finish; each step has a limit
	err := s.move(ctx, j, locks)
	if errors.Is(err, errAgain) || errors.Is(err, ErrBusy) { // then nothing has moved
		return errors.Join(err, h.rollback(ctx, s.held))
	}
	s.fitted = false // after another error the next sync finds the moved references, and needs the file
	if err != nil {
		h.unlockIndex()
		return err
	}
	return h.complete(ctx, j, s.held)
}
