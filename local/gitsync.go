package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitcopy"
	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/git/hostgit"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// gitLimit is how long one synchronisation of all repositories of a sandbox may take.
const gitLimit = 10 * time.Minute

// maxRounds bounds how often a synchronisation looks again for what was changed meanwhile.
const maxRounds = 3

// maxGitLines bounds the lines about git that a command gets.
const maxGitLines = 100

// gits keeps the git directories that sandboxes have of their own and the repositories of the host the same: before and
// after each command, and while one runs in this process.
type gits struct {
	*catalog
	exec *executor // runs git inside

	mu    sync.Mutex
	boxes map[string]*gitBox // by sandbox id; guarded by mu
}

// A gitBox is what this process knows of the git directories of a sandbox.
type gitBox struct {
	gits   *gits
	box    *statedir.Box
	config *statedir.Config // of its first use; the codebase and the name do not change

	users   int       // commands under way; guarded by gits.mu
	watcher *gitWatch // while users > 0; or nil; guarded by gits.mu

	mu      sync.Mutex             // one synchronisation at a time in this process; guards what follows
	made    statefile.Stamp        // of the directory with the bases, when pairs were found
	pairs   []*gitsync.Pair        // of the last look; never changed
	hidden  func(path string) bool // by the rules; nil: they were not compiled yet
	store   string                 // of the last look: the directory with the sandbox's git directories
	problem string                 // why pairs could not be found
	apart   []gitpairs.Pair        // of the last look: those that the host has to get when a command has ended

	unarrived bool                       // apart has some, or the sandbox has removed what wolffia has made
	stuck     []string                   // lines about those that do not arrive
	syncs     int                        // how many have done something
	done      []string                   // lines about what was done, the last of all syncs
	dropped   int                        // lines that are no longer in done
	stands    map[*gitsync.Pair][]string // lines about what stays on its side, of the last sync
	pending   map[*gitsync.Pair]string   // why something stays inside
	repeated  map[string]bool            // lines of stands that a command got already
}

// of returns what is known of a sandbox; nil if its git directories are not its own.
func (g *gits) of(box *statedir.Box, c *statedir.Config) *gitBox {
	if !c.PrivateGit {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.boxes[box.ID()]
	if b == nil {
		b = &gitBox{gits: g, box: box, config: c}
		g.boxes[box.ID()] = b
	}
	return b
}

// forget drops what is known of a sandbox that is gone.
func (g *gits) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.boxes[id]; b != nil && b.users == 0 {
		delete(g.boxes, id)
	}
}

// closeAll ends all watchers.
func (g *gits) closeAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.boxes {
		b.watcher.close() // nil is fine
		b.watcher = nil
	}
}

// A gitUse is a command in a sandbox whose git directories are its own. Methods of nil do nothing.
type gitUse struct {
	*gitBox
	syncs, from int // of the box when the command began
	ended       sync.Once
	over        sync.Once
	report      runtime.GitReport
}

// begin brings both sides to the same state for a command that is about to start, and watches them
// until end is called. It returns nil for a sandbox whose git directories are not its own.
func (g *gits) begin(ctx context.Context, box *statedir.Box, c *statedir.Config) *gitUse {
	b := g.of(box, c)
	if b == nil {
		return nil
	}
	g.mu.Lock()
	if b.users++; b.watcher == nil {
		b.watcher = watchGit(b) // nil: this process has no descriptors left
	}
	watcher := b.watcher
	g.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.find()
	at, cancel := context.WithCancel(ctx)
	cancel() // it does not wait for another process
	_ = b.settleKilled(at)
	watcher.watchPairs(b.pairs, b.static()) // before the look, or a change after it would be missed
	if !b.same() {
		b.sync(ctx) // an error is pending
	}
	return &gitUse{gitBox: b, syncs: b.syncs, from: b.dropped + len(b.done)}
}

// end ends the watch. Calling it twice is fine.
func (u *gitUse) end() {
	if u == nil {
		return
	}
	u.over.Do(func() {
		u.gits.mu.Lock()
		defer u.gits.mu.Unlock()
		if u.users--; u.users == 0 {
			u.watcher.close() // nil is fine
			u.watcher = nil
		}
	})
}

// finish takes over what a command that has ended has changed, and notes in its result what crossed while it
// ran. If git has changed nothing inside, that costs one system call.
func (u *gitUse) finish(ctx context.Context, r *runtime.Result) {
	if u == nil {
		return
	}
	u.ended.Do(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.changed() {
			u.sync(ctx)
		}
		if u.unarrived {
			u.arrive(ctx)
		}
		if u.gitBox.syncs != u.syncs {
			u.report = runtime.GitReport{Lines: u.linesFrom(u.from), Pending: pendingGit(u.box)}
		}
		u.end() // before the lock is free: a synchronisation that begins then would be stopped midway
		step.Reached("git: synchronised")
	})
	r.Git, r.GitPending = u.report.Lines, u.report.Pending
}

// SyncGit implements [runtime.Workspace].
func (e *executor) SyncGit(ctx context.Context, sandboxID string) (*runtime.GitReport, error) {
	box, c, err := e.brief(sandboxID)
	if err != nil {
		return nil, err
	}
	b := e.gits.of(box, c)
	if b == nil {
		return &runtime.GitReport{}, nil
	}
	state, _, err := box.State()
	if err != nil {
		return nil, err
	}
	if state != runtime.StateRunning {
		return &runtime.GitReport{Pending: unsyncedGit(box, c)}, nil
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
	r := &runtime.GitReport{Pending: pendingGit(box)}
	if b.syncs != syncs {
		r.Lines = b.linesFrom(from)
	}
	return r, nil
}

// stopLimit is how long a stop waits for what git inside has changed last to be taken over.
const stopLimit = time.Minute

// beforeStop takes over what git inside has changed, while the sandbox still runs. What cannot be
// taken over is pending.
func (g *gits) beforeStop(ctx context.Context, box *statedir.Box, c *statedir.Config) {
	b := g.of(box, c)
	if b == nil || !b.static() && !box.Git().Changed() {
		return
	}
	if state, _, err := box.State(); err != nil || state != runtime.StateRunning {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed() {
		b.sync(ctx)
	}
	if b.unarrived {
		b.arrive(ctx)
	}
}

// hasPrivateGit reports whether the git directories of a sandbox with this configuration are its own.
func hasPrivateGit(c *statedir.Config) bool {
	return c.GitDirs == runtime.GitPrivate && c.CodebasePath != "" && c.Filter != runtime.FilterNone && !c.CopyOnWrite
}

// static reports whether no process serves the sandbox's git directories: then nothing makes the
// mark that one has changed, and both sides are compared.
func (b *gitBox) static() bool { return !b.config.Serves() }

// changed reports whether the sandbox's git directories may have changed since the last
// synchronisation has begun. b.mu is held.
func (b *gitBox) changed() bool {
	if b.static() {
		return !b.same()
	}
	return b.box.Git().Changed()
}

// unsyncedGit is pendingGit for a sandbox that does not run, in which something may have been
// changed after the last synchronisation.
func unsyncedGit(box *statedir.Box, c *statedir.Config) string {
	why := pendingGit(box)
	if why == "" && !c.Serves() && !(&gitBox{box: box, config: c, gits: &gits{}}).kept() {
		why = unsynced
	}
	return why
}

// unsynced is why a sandbox is kept whose last changes are not known.
const unsynced = "what git inside has changed last was not taken over yet"

// kept reports whether each git directory of the sandbox is what the last synchronisation has left.
func (b *gitBox) kept() bool {
	b.find()
	return b.problem == "" && !slices.ContainsFunc(b.pairs, func(p *gitsync.Pair) bool { return !p.Kept() })
}

// pendingGit returns why something of a sandbox's git directories would be lost with it; empty: nothing would be.
func pendingGit(box *statedir.Box) string {
	if why := box.Git().Pending(); why != "" {
		return why
	}
	if box.Git().Changed() {
		return unsynced
	}
	return ""
}

// same reports whether neither side has changed since the last synchronisation in this process, and
// so has nothing of this one to be recorded. b.mu is held.
func (b *gitBox) same() bool {
	if b.box.Git().Changed() {
		return false
	}
	if !b.find() {
		return true // no git directory was used yet
	}
	for _, p := range b.pairs {
		if _, unchanged := p.Unchanged(); !unchanged {
			return false
		}
	}
	return b.problem == ""
}

// find finds the pairs, if there are new ones, and reports whether there are any. b.mu is held.
func (b *gitBox) find() bool {
	made := b.baseStamp() // before the look
	if made == b.made && made != (statefile.Stamp{}) {
		return len(b.pairs) > 0 || b.problem != ""
	}
	return b.look(made)
}

// look finds the pairs. b.mu is held.
func (b *gitBox) look(made statefile.Stamp) bool {
	git := statedir.Git(b.box.Run())
	apart, _ := statedir.GitApart(git) // without one there is nothing
	b.store = filepath.Join(git, apart, statedir.GitStore)
	found, err := gitpairs.Find(b.store, b.config.CodebasePath, b.config.MountPointOrDefault())
	if err != nil {
		b.problem = err.Error()
		return true
	}
	b.made, b.problem = made, ""
	known := map[string]*gitsync.Pair{}
	for _, p := range b.pairs {
		known[p.Private] = p
	}
	b.pairs, b.apart = nil, nil
	for i := range found {
		if b.static() && b.emptied(&found[i]) {
			continue
		}
		b.follow(&found[i])
		p := b.pair(&found[i])
		if b.isApart(&found[i]) && !b.static() { // else it is on the host, or was removed there
			b.apart = append(b.apart, found[i])
		}
		if p == nil {
			continue
		}
		if old := known[p.Private]; old != nil && old.Host == p.Host && old.Worktree == p.Worktree {
			p = old
		}
		b.pairs = append(b.pairs, p)
	}
	for _, p := range b.pairs {
		p.Others = others(p, b.pairs)
	}
	b.unarrived = len(b.apart) > 0 || len(b.departed()) > 0
	return len(b.pairs) > 0
}

// emptied reports whether the sandbox has removed all that is in a git directory: where nothing
// serves it, the directory stays.
func (b *gitBox) emptied(f *gitpairs.Pair) bool {
	store, err := os.Open(b.store)
	if err != nil {
		return false
	}
	defer store.Close()
	dir, err := openDirectory(store, f.Private)
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.ReadDir(1)
	return errors.Is(err, io.EOF)
}

// pair returns what synchronises a pair; nil if it was not copied from the host.
func (b *gitBox) pair(f *gitpairs.Pair) *gitsync.Pair {
	p := b.newPair(f)
	var st unix.Stat_t
	if f.Made || unix.Lstat(p.State, &st) != nil {
		return nil
	}
	return p
}

// newPair returns what synchronises a pair.
func (b *gitBox) newPair(f *gitpairs.Pair) *gitsync.Pair {
	p := &gitsync.Pair{
		Host: f.Host, Worktree: filepath.Join(b.config.CodebasePath, f.Place), Private: filepath.Join(b.store, f.Private), Store: b.store,
		State: b.bases(statedir.GitBaseName(f.Private)), Dir: filepath.Join(b.config.MountPointOrDefault(), f.Place), Name: b.name(),
	}
	if f.Common != "" {
		p.Common = filepath.Join(b.store, f.Common)
	}
	p.Hidden = func(name string) bool { return b.hides(filepath.Join(f.Place, name)) }
	away := !strings.HasPrefix(f.Host, b.config.CodebasePath+"/")
	credentials := boot.TreeGitOf(b.config).Credentials
	p.Filter = func(name string, content []byte) []byte { return gitcopy.Shown(name, content, credentials, away) }
	p.Inside = &gitInside{exec: b.gits.exec, box: b.box.ID(), dir: p.Dir}
	return p
}

// others returns the other working trees of the repository of a pair that have pairs.
func others(p *gitsync.Pair, all []*gitsync.Pair) (others []gitsync.Other) {
	for _, o := range all {
		if o != p && cmp.Or(o.Common, o.Private) == cmp.Or(p.Common, p.Private) {
			others = append(others, gitsync.Other{Host: o.Host, Private: o.Private})
		}
	}
	return others
}

// name returns the sandbox's name, or its id.
func (b *gitBox) name() string {
	if b.config.Name != "" {
		return b.config.Name
	}
	return b.box.ID()
}

// hides reports whether the rules hide a path of the codebase. They are those that the sandbox has had at the first
// question of this process. b.mu is held.
func (b *gitBox) hides(path string) bool {
	if b.hidden == nil {
		b.hidden = func(string) bool { return true } // rules that cannot be read hide everything
		if _, c, err := b.gits.find(b.box.ID()); err == nil && c.Whole() == nil {
			if policy, err := perm.Compile(c.Permissions); err == nil {
				b.hidden = func(path string) bool { return policy.Level(path, false) == perm.None }
			}
		}
	}
	return b.hidden(path)
}

// sync brings all pairs to the same state, and records what is pending. b.mu is held. It reports
// whether all was taken over, or is known to stay.
func (b *gitBox) sync(ctx context.Context) (settled bool) {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	b.syncs++
	b.stands, b.pending = map[*gitsync.Pair][]string{}, map[*gitsync.Pair]string{}
	b.hidden = nil // the rules may have been replaced
	for range maxRounds {
		// What is changed from here on makes the mark again.
		changed := b.box.Git().TakeChanged()
		step.Reached("git: mark taken")
		if changed || b.static() {
			b.look(b.baseStamp())
		} else {
			b.find()
		}
		settled = b.syncPairs(ctx)
		if !settled || !b.box.Git().Changed() {
			break
		}
	}
	if !settled {
		_ = b.box.Git().SetChanged(b.config) // the next one tries again
	}
	_ = b.box.Git().SetPending(b.why()) // that the sandbox may have gone meanwhile is fine
	return settled
}

// syncPairs synchronises each pair once. b.mu is held.
func (b *gitBox) syncPairs(ctx context.Context) (settled bool) {
	settled = b.problem == ""
	for _, p := range b.pairs {
		report, err := p.Sync(ctx)
		delete(b.stands, p)
		delete(b.pending, p)
		for _, line := range report.Said {
			b.say(b.named(p, line))
		}
		for _, line := range report.Stays {
			b.stands[p] = append(b.stands[p], b.named(p, line))
		}
		if report.Pending != "" {
			b.pending[p] = report.Pending
		}
		if err != nil {
			settled = false
			b.stands[p] = append(b.stands[p], b.failure(p, err))
			if report.Pending == "" {
				b.pending[p] = err.Error()
			}
		}
	}
	return settled
}

// named returns a line about a pair: it names the repository unless that is the codebase's own.
func (b *gitBox) named(p *gitsync.Pair, line string) string {
	rel, err := filepath.Rel(b.config.CodebasePath, p.Worktree)
	if err != nil || rel == "." {
		return line
	}
	return "in " + hostgit.Printable(rel) + ": " + line
}

// failure returns the line for a synchronisation that has failed.
func (b *gitBox) failure(p *gitsync.Pair, err error) string {
	if errors.Is(err, gitsync.ErrBusy) {
		return err.Error()
	}
	return fmt.Sprintf("git in %s was not taken over: %v", p.Dir, err)
}

// say keeps a line about what was done. b.mu is held.
func (b *gitBox) say(line string) {
	if slices.Contains(b.done, line) {
		return
	}
	if b.done = append(b.done, line); len(b.done) > maxGitLines {
		b.done = b.done[1:]
		b.dropped++
	}
}

// linesFrom returns the lines about what was done since from, and about what stays unless a command
// had these already. b.mu is held.
func (b *gitBox) linesFrom(from int) []string {
	lines := slices.Clone(b.done[min(max(0, from-b.dropped), len(b.done)):])
	repeated := map[string]bool{}
	add := func(line string) {
		if repeated[line] {
			return
		}
		if repeated[line] = true; !b.repeated[line] {
			lines = append(lines, line)
		}
	}
	if b.problem != "" {
		add(b.problem)
	}
	for _, line := range b.stuck {
		add(line)
	}
	for _, p := range b.pairs {
		for _, line := range b.stands[p] {
			add(line)
		}
	}
	b.repeated = repeated
	return lines
}

// why returns why something stays inside that would be lost with the sandbox. b.mu is held.
func (b *gitBox) why() string {
	var all []string
	if b.problem != "" {
		all = append(all, b.problem)
	}
	all = append(all, b.stuck...)
	for _, p := range b.pairs {
		if why := b.pending[p]; why != "" {
			if len(b.pairs) > 1 {
				why = p.Dir + ": " + why
			}
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}
