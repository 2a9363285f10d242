package reposync

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
)

// maxRounds bounds how often a synchronisation looks again for what was changed meanwhile.
const maxRounds = 3

// repositories are what this process knows of the git directories of a sandbox.
type repositories struct {
	sides // guarded by mu, but for what never changes
	journal

	users   int      // commands under way; guarded by syncer.mu
	watcher *watcher // while users > 0; or nil; guarded by syncer.mu

	// one synchronisation at a time in this process; guards what follows, and the journal
	mu    sync.Mutex
	made  statefile.Stamp // of the directory with the bases, when pairs were found
	pairs []*gitsync.Pair // of the last look; never changed
	// of the last look: those that the host has to get when a command has ended
	apart []gitpairs.Pair

	unarrived bool // apart has some, or the sandbox has removed what wolffia has made
	syncs     int  // how many have done something
}

// takeOver takes over what commands that have ended have changed. r.mu is held.
func (r *repositories) takeOver(ctx context.Context) {
	if r.changed() {
		r.sync(ctx)
	}
	if r.unarrived {
		r.arrive(ctx)
	}
}

// changed reports whether the sandbox's git directories may have changed since the last
// synchronisation has begun. r.mu is held.
func (r *repositories) changed() bool {
	if r.static() {
		return !r.same()
	}
	return r.rec.Git().Changed()
}

// kept reports whether each git directory of the sandbox is what the last synchronisation has
// left.
func (r *repositories) kept() bool {
	r.find()
	return r.problem == "" && !slices.ContainsFunc(r.pairs, func(p *gitsync.Pair) bool { return !p.PrivateUnchanged() })
}

// same reports whether neither side has changed since the last synchronisation in this process,
// and so has nothing of this one to be recorded. r.mu is held.
func (r *repositories) same() bool {
	if r.rec.Git().Changed() {
		return false
	}
	if !r.find() {
		return true // no git directory was used yet
	}
	for _, p := range r.pairs {
		if _, unchanged := p.Unchanged(); !unchanged {
			return false
		}
	}
	return r.problem == ""
}

// find finds the pairs, if there are new ones, and reports whether there are any. r.mu is held.
func (r *repositories) find() bool {
	made := r.baseStamp() // before the look
	if made == r.made && made != (statefile.Stamp{}) {
		return len(r.pairs) > 0 || r.problem != ""
	}
	return r.look(made)
}

// look finds the pairs. r.mu is held.
func (r *repositories) look(made statefile.Stamp) bool {
	git := statedir.Git(r.rec.Run())
	apart, _ := statedir.GitApart(git) // without one there is nothing
	r.store = filepath.Join(git, apart, statedir.GitStore)
	found, err := gitpairs.Find(r.store, r.config.CodebasePath, r.config.MountPointOrDefault())
	if err != nil {
		r.problem = err.Error()
		return true
	}
	r.made, r.problem = made, ""
	known := map[string]*gitsync.Pair{}
	for _, p := range r.pairs {
		known[p.Private] = p
	}
	r.pairs, r.apart = nil, nil
	for i := range found {
		if r.static() && r.emptied(&found[i]) {
			continue
		}
		r.follow(&found[i])
		p := r.pair(&found[i])
		if r.isApart(&found[i]) && !r.static() { // else it is on the host, or was removed there
			r.apart = append(r.apart, found[i])
		}
		if p == nil {
			continue
		}
		if old := known[p.Private]; old != nil && old.Host == p.Host && old.Worktree == p.Worktree {
			p = old
		}
		r.pairs = append(r.pairs, p)
	}
	for _, p := range r.pairs {
		p.Others = others(p, r.pairs)
	}
	r.unarrived = len(r.apart) > 0 || len(r.departed()) > 0
	return len(r.pairs) > 0
}

// sync brings all pairs to the same state, and records what is pending. r.mu is held. It reports
// whether all was taken over, or is known to stay.
func (r *repositories) sync(ctx context.Context) (settled bool) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	r.syncs++
	r.stands, r.pending = map[*gitsync.Pair][]string{}, map[*gitsync.Pair]string{}
	r.hidden = nil // the rules may have been replaced
	for range maxRounds {
		// What is changed from here on makes the mark again.
		changed := r.rec.Git().TakeChanged()
		step.Reached("git: mark taken")
		if changed || r.static() {
			r.look(r.baseStamp())
		} else {
			r.find()
		}
		settled = r.syncPairs(ctx)
		if !settled || !r.rec.Git().Changed() {
			break
		}
	}
	if !settled {
		_ = r.rec.Git().SetChanged(r.config) // the next one tries again
	}
	_ = r.rec.Git().SetPending(r.why(r.pairs)) // that the sandbox may have gone meanwhile is fine
	return settled
}

// syncPairs synchronises each pair once. r.mu is held.
func (r *repositories) syncPairs(ctx context.Context) (settled bool) {
	settled = r.problem == ""
	for _, p := range r.pairs {
		report, err := p.Sync(ctx)
		delete(r.stands, p)
		delete(r.pending, p)
		for _, line := range report.Said {
			r.say(r.named(p, line))
		}
		for _, line := range report.Stays {
			r.stands[p] = append(r.stands[p], r.named(p, line))
		}
		if report.Pending != "" {
			r.pending[p] = report.Pending
		}
		if err != nil {
			settled = false
			r.stands[p] = append(r.stands[p], failure(p, err))
			if report.Pending == "" {
				r.pending[p] = err.Error()
			}
		}
	}
	return settled
}

// live synchronises while a command runs, if one side has changed. It reports whether all was
// taken over, or is known to stay.
func (r *repositories) live(ctx context.Context, w *watcher) (settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return true // the command has ended, and what it has changed was taken over
	}
	r.find()
	// before the look, or a change of the host's after it would be missed
	w.watchPairs(r.pairs, r.static())
	settled = r.same() || r.sync(ctx)
	w.watchPairs(r.pairs, r.static()) // there may be new ones
	return settled
}
