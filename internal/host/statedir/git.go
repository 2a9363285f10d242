package statedir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// Names of a sandbox's own git directories, in the directory of [Git].
const (
	gitDir   = "git"
	gitApart = "apart-" // begins the name of the directory that has GitStore and GitWork
	GitStore = "store"  // P/.git is the .git of the codebase's directory P; hostile
	// for temporary names of the tree server, which empties it at each start
	GitWork = "work"
	// what both sides had at the last sync: a directory of GitBaseName for each git directory
	GitBase  = "base"
	GitHosts = "hosts.json" // the git directories of the host whose objects are shown, by number
	// exists if something but objects was changed in GitStore since the last sync has begun
	GitChanged = "changed"
	GitTemp    = "temp.json" // what has a temporary name in the codebase, while something has
	gitPending = "pending"   // why something stays in GitStore that would be lost with it
)

// Git returns the directory of a sandbox's own git directories, for a program that knows only the
// run directory. It belongs to the user that the tree server runs as, and survives Stop.
func Git(run string) string { return filepath.Join(filepath.Dir(run), gitDir) }

// GitApart returns the name, in the directory git, of the directory that has GitStore and GitWork.
// No sandbox can know it: what is in it is hostile, and a symbolic link to it in the codebase
// would lead a git of the host's to a configuration of the sandbox's. One with a static filter can
// learn it from mountinfo, but can make a .git in the codebase as well.
func GitApart(git string) (string, error) {
	list, err := names(git)
	if err != nil {
		return "", err
	}
	for _, name := range list {
		if strings.HasPrefix(name, gitApart) {
			return name, nil
		}
	}
	return "", &fs.PathError{Op: "find", Path: filepath.Join(git, gitApart+"*"), Err: fs.ErrNotExist}
}

// GitBaseName returns the name, in GitBase, of what was last the same of a git directory, whose
// path is relative to GitStore.
func GitBaseName(private string) string {
	sum := sha256.Sum256([]byte(private))
	return hex.EncodeToString(sum[:16])
}

// A GitState is the part of a Record with a sandbox's own git directories. See also the constants that
// begin with Git.
type GitState struct{ rec *Record }

// Git returns the state of the sandbox's git directories.
func (rec *Record) Git() GitState { return GitState{rec} }

// Make makes what Git returns, as far as it does not exist.
func (g GitState) Make(c *Config) error {
	dir := Git(g.rec.Run())
	apart, err := GitApart(dir)
	if err != nil {
		apart = gitApart + rand.Text()
	}
	apart = filepath.Join(dir, apart)
	for _, d := range []string{dir, filepath.Join(dir, GitBase), apart, filepath.Join(apart, GitStore), filepath.Join(apart, GitWork)} {
		err := unix.Mkdir(d, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = os.Chmod(d, 0o700) // whatever the umask
		}
		if err == nil {
			err = g.Give(c, d)
		}
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "make the place of the sandbox's git directories, %s: %w", d, err)
		}
	}
	return nil
}

// MakeBase makes the directory of GitBaseName for a git directory that has none, and returns its
// path.
func (g GitState) MakeBase(c *Config, private string) (string, error) {
	dir := filepath.Join(g.file(GitBase), GitBaseName(private))
	err := unix.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return dir, nil
	}
	if err == nil {
		err = g.Give(c, dir)
	}
	if err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "make %s: %w", dir, err)
	}
	return dir, nil
}

// Changed reports whether the sandbox's git directories may have changed since the last sync has
// begun.
func (g GitState) Changed() bool {
	var st unix.Stat_t
	return unix.Lstat(g.file(GitChanged), &st) == nil
}

// GitUnsynced reports whether a sandbox's git directories may have something that would be lost
// with the sandbox, for a program that knows only the run directory: GitChanged, or a reason of
// GitPending; or the sandbox's temporary name in the codebase is in use.
func GitUnsynced(run string) bool {
	for _, name := range []string{GitChanged, gitPending, GitTemp} {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(Git(run), name), &st) == nil {
			return true
		}
	}
	return false
}

// GitUsed reports whether a sandbox has a git directory of its own, for a program that knows only
// the run directory.
func GitUsed(run string) bool {
	all, err := names(filepath.Join(Git(run), GitBase))
	return len(all) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// TakeChanged is GitChanged, and removes the mark: what changes from now on makes it again.
func (g GitState) TakeChanged() bool { return unix.Unlink(g.file(GitChanged)) == nil }

// SetChanged makes the mark again, for a sync that has failed.
func (g GitState) SetChanged(c *Config) error {
	path := g.file(GitChanged)
	if g.Changed() {
		return nil
	}
	return errors.Join(statefile.Create(path, nil), g.Give(c, path))
}

// Pending returns why something stays in the sandbox's git directories that would be lost with
// the sandbox; empty: nothing does, unless GitChanged.
func (g GitState) Pending() string {
	var why string
	err := statefile.Read(g.file(gitPending), &why)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil || why == "":
		return "the record of the last sync is damaged"
	}
	return why
}

// SetPending records what GitPending returns.
func (g GitState) SetPending(why string) error {
	if why == "" {
		return removeIfExists(g.file(gitPending))
	}
	return statefile.Write(g.file(gitPending), why)
}

// Give gives a file below Git to the user that the tree server runs as.
func (g GitState) Give(c *Config, path string) error {
	if c.RootTree {
		return nil
	}
	return c.give(path)
}

// file returns the path of a file in the directory of Git.
func (g GitState) file(name string) string { return filepath.Join(Git(g.rec.Run()), name) }
