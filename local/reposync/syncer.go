// Package reposync keeps what a sandbox has of git the same as the host's repositories.
//
// Commits and references cross (package internal/git/gitsync), and whole repositories, submodules
// and working trees that a sandbox has made, moved or removed.
package reposync

import (
	"context"
	"sync"
	"time"

	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// Limit is how long one synchronisation of all repositories of a sandbox may take.
const Limit = 10 * time.Minute

// A Syncer keeps the git directories that sandboxes have of their own and the repositories of the
// host the same: before and after each command, and while one runs in this process. It is safe for
// concurrent use.
type Syncer struct {
	inside func(sandboxID, dir string) gitsync.Inside
	config func(sandboxID string) (*statedir.Config, error)

	mu    sync.Mutex
	boxes map[string]*repositories // by sandbox id; guarded by mu
}

// New returns a Syncer. inside returns what runs git in a directory of a sandbox, in a command
// that has no [Use]: it would wait for itself. config returns the configuration of a sandbox with
// its rules.
func New(
	inside func(sandboxID, dir string) gitsync.Inside, config func(sandboxID string) (*statedir.Config, error),
) *Syncer {
	return &Syncer{inside: inside, config: config, boxes: map[string]*repositories{}}
}

// of returns what is known of a sandbox; nil if its git directories are not its own.
func (s *Syncer) of(rec *statedir.Record, c *statedir.Config) *repositories {
	if !c.PrivateGit {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[rec.ID()]
	if b == nil {
		b = &repositories{sides: sides{syncer: s, rec: rec, config: c}}
		s.boxes[rec.ID()] = b
	}
	return b
}

// Forget drops what is known of a sandbox that is gone.
func (s *Syncer) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil && b.users == 0 {
		delete(s.boxes, id)
	}
}

// Close ends the synchronisation while commands run. It does not wait, and calling it twice is
// fine.
func (s *Syncer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		b.watcher.close() // nil is fine
		b.watcher = nil
	}
}

// Begin brings both sides to the same state for a command that is about to start, and watches them
// until [Use.End] is called. It returns nil for a sandbox whose git directories are not its own.
// What does not succeed is pending.
func (s *Syncer) Begin(ctx context.Context, rec *statedir.Record, c *statedir.Config) *Use {
	b := s.of(rec, c)
	if b == nil {
		return nil
	}
	s.mu.Lock()
	if b.users++; b.watcher == nil {
		b.watcher = newWatcher(b)
	}
	s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.find()
	at, cancel := context.WithCancel(ctx)
	cancel() // it does not wait for another process
	_ = b.settleKilled(at)
	if !b.same() {
		b.sync(ctx) // an error is pending
	}
	return &Use{repositories: b, syncs: b.syncs, from: b.dropped + len(b.done)}
}

// Sync synchronises the repositories of a sandbox now, if it runs: see [runtime.Workspace].
func (s *Syncer) Sync(ctx context.Context, rec *statedir.Record, c *statedir.Config) (*runtime.GitReport, error) {
	b := s.of(rec, c)
	if b == nil {
		return &runtime.GitReport{}, nil
	}
	state, _, err := rec.State()
	if err != nil {
		return nil, err
	}
	if state == runtime.StatePaused {
		return &runtime.GitReport{Pending: pending(rec)}, nil
	}
	if state != runtime.StateRunning {
		return &runtime.GitReport{Pending: Unsynced(rec, c)}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	syncs, from := b.syncs, b.dropped+len(b.done)
	if !b.same() {
		b.sync(ctx)
	}
	if b.unarrived {
		b.arrive(ctx)
	}
	r := &runtime.GitReport{Pending: pending(rec)}
	if b.syncs != syncs {
		r.Lines = b.linesFrom(from, b.pairs)
	}
	return r, nil
}

// stopLimit is how long a stop waits for what git inside has changed last to be taken over.
const stopLimit = time.Minute

// BeforeStop takes over what git inside has changed, while the sandbox still runs. It takes a
// minute at most. What cannot be taken over is pending.
func (s *Syncer) BeforeStop(ctx context.Context, rec *statedir.Record, c *statedir.Config) {
	b := s.of(rec, c)
	if b == nil || !b.static() && !rec.Git().Changed() {
		return
	}
	if state, _, err := rec.State(); err != nil || state != runtime.StateRunning {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takeOver(ctx)
}

// Settle puts right what a process that was killed while it made or removed a git directory has
// left in the codebase of a sandbox. The error names the codebase, and is of class
// [runtime.ErrUnavailable].
func (s *Syncer) Settle(ctx context.Context, rec *statedir.Record, c *statedir.Config) error {
	if !c.PrivateGit {
		return nil
	}
	if err := (&sides{syncer: s, rec: rec, config: c}).settleKilled(ctx); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "put right what a killed process has left in codebase %s: %w",
			c.CodebasePath, err)
	}
	return nil
}

// Unsynced returns why something of the git directories of a sandbox that does not run would be
// lost with it; empty: nothing would be. Something may have been changed after the last
// synchronisation.
func Unsynced(rec *statedir.Record, c *statedir.Config) string {
	why := pending(rec)
	if why == "" && !c.Serves() && !(&repositories{sides: sides{rec: rec, config: c}}).kept() {
		why = unsynced
	}
	return why
}

// unsynced is why a sandbox is kept whose last changes are not known.
const unsynced = "what git inside has changed last was not taken over yet"

// pending returns why something of a sandbox's git directories is known to be lost with it; empty:
// nothing is.
func pending(rec *statedir.Record) string {
	if why := rec.Git().Pending(); why != "" {
		return why
	}
	if rec.Git().Changed() {
		return unsynced
	}
	return ""
}
