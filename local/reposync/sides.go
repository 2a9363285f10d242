package reposync

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitcopy"
	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/git/hostgit"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/perm"
)

// sides are where the git directories of a sandbox and the host's are, and what synchronises two
// of them.
type sides struct {
	syncer *Syncer // nil: nothing is run inside
	rec    *statedir.Record
	config *statedir.Config // of its first use; the codebase and the name do not change

	hidden func(path string) bool // by the rules; nil: they were not compiled yet
	// of the last look: the directory with the sandbox's git directories
	store string
}

// static reports whether no process serves the sandbox's git directories: then nothing makes the
// mark that one has changed, and both sides are compared.
func (s *sides) static() bool { return !s.config.Serves() }

// emptied reports whether the sandbox has removed all that is in a git directory: where nothing
// serves it, the directory stays.
func (s *sides) emptied(f *gitpairs.Pair) bool {
	store, err := os.Open(s.store)
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
func (s *sides) pair(f *gitpairs.Pair) *gitsync.Pair {
	p := s.newPair(f)
	var st unix.Stat_t
	if f.Made || unix.Lstat(p.State, &st) != nil {
		return nil
	}
	return p
}

// newPair returns what synchronises a pair.
func (s *sides) newPair(f *gitpairs.Pair) *gitsync.Pair {
	p := &gitsync.Pair{
		Host: f.Host, Worktree: filepath.Join(s.config.CodebasePath, f.Place),
		Private: filepath.Join(s.store, f.Private), Store: s.store, State: s.bases(statedir.GitBaseName(f.Private)),
		Dir: filepath.Join(s.config.MountPointOrDefault(), f.Place), Name: cmp.Or(s.config.Name, s.rec.ID()),
	}
	if f.Common != "" {
		p.Common = filepath.Join(s.store, f.Common)
	}
	p.Hidden = func(name string) bool { return s.hides(filepath.Join(f.Place, name)) }
	away := !strings.HasPrefix(f.Host, s.config.CodebasePath+"/")
	credentials := boot.TreeGitOf(s.config).Credentials
	p.Filter = func(name string, content []byte) []byte { return gitcopy.Shown(name, content, credentials, away) }
	if s.syncer != nil {
		p.Inside = s.syncer.inside(s.rec.ID(), p.Dir)
	}
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

// named returns a line about a pair: it names the repository unless that is the codebase's own.
func (s *sides) named(p *gitsync.Pair, line string) string {
	rel, err := filepath.Rel(s.config.CodebasePath, p.Worktree)
	if err != nil || rel == "." {
		return line
	}
	return "in " + hostgit.Printable(rel) + ": " + line
}

// hides reports whether the rules hide a path of the codebase. They are those that the sandbox has
// had at the first question of this process.
func (s *sides) hides(path string) bool {
	if s.hidden == nil {
		s.hidden = func(string) bool { return true } // rules that cannot be read hide everything
		if c, err := s.syncer.config(s.rec.ID()); err == nil && c.RequireRules() == nil {
			if policy, err := perm.Compile(c.Permissions); err == nil {
				s.hidden = func(path string) bool { return policy.Level(path, false) == perm.None }
			}
		}
	}
	return s.hidden(path)
}

// bases returns the path of the directory that has one for each pair, or of what that has at a
// path.
func (s *sides) bases(path ...string) string {
	return filepath.Join(statedir.Git(s.rec.Run()), statedir.GitBase, filepath.Join(path...))
}

// baseStamp tells whether pairs were added.
func (s *sides) baseStamp() statefile.Stamp { return statefile.StampOf(s.bases()) }
