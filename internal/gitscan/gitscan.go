// Package gitscan finds the git repositories in a tree without running git. Of each it
// tells what its configuration makes the host user's git run. A sandbox may be able to
// write the tree, and the user's git trusts what it finds there; what Scan returns is what
// has to be read-only.
//
//	repos, err := gitscan.Scan(ctx, "/home/ann/project")
//	for _, dir := range repos.Dirs { // ".git", "vendor/x/.git"
//
// It is not a check: what git would accept as a repository is decided loosely,
// in favour of finding one. The repository that the tree is a part of is read
// too, for what it runs in the tree. Repositories that are made later are not
// known, nor is what only the user's own configuration (~/.gitconfig) points to.
//
// The tree is hostile: sizes are bounded, symbolic links are followed only
// where git itself would, and nothing but regular files is opened.
package gitscan

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultMaxDirs is the number of directories that a scan reads at most.
const DefaultMaxDirs = 200_000

// Repos is what a scan found. All paths are relative to the scanned directory,
// clean and sorted, with every symbolic link in them resolved.
type Repos struct {
	// Dirs are the git directories: ".git", "vendor/x/.git", "x.git", or "."
	// if the scanned directory is itself a bare repository. Among them are
	// those that a .git file points to.
	Dirs []string

	// Links are what leads git to a repository and is not one: files (and
	// symbolic links) named .git, of linked worktrees and submodules, and
	// symbolic links on the way to a path in Dirs or Outside. Whoever can
	// replace one chooses the configuration and the hooks.
	Links []string

	// Outside are the paths that a repository makes git execute or include
	// beside the hooks and the configuration of its git directory: other
	// directories of hooks, included files, programs, and where links among
	// the hooks lead. They need not exist. "." stands for everything.
	Outside []string

	// Named are the regular files with one of Options.Names; not all, if there are
	// very many.
	Named []string

	// Marked are the directories that have an entry with one of Options.Marks; not
	// all, if there are very many.
	Marked []string

	// Linked are the symbolic links for which Options.Link says true; not all, if
	// there are very many.
	Linked []string

	// Skipped are the directories that were not looked into since they are another
	// mount's.
	Skipped []string

	// Unread are those that could not be looked into: not readable, or with a path
	// too long for the kernel. There may be repositories in them, or at them.
	Unread []string

	// Credentials are the settings below the scanned directory that have a
	// password or a token as their value, or in an address.
	Credentials []Credential

	// Trees are the working trees below the scanned directory of which the git
	// directory is below it too. Linked worktrees and submodules are among them,
	// bare repositories are not.
	Trees []Tree

	// Outer is how many files have hard links that were not found in the tree, among
	// Options.Files of them. Git directories are left out.
	Outer int

	// Truncated says that a limit was reached: there may be more of everything.
	Truncated bool
}

// Options are the settings of a scan. The zero value, and nil, mean the
// defaults.
type Options struct {
	MaxDirs int    // directories to read at most; 0 means DefaultMaxDirs
	Home    string // what ~ means in a configuration; "" means os.UserHomeDir

	// Names are names of files to look for on the way, in lower case: letters of
	// either case count.
	Names []string

	// Marks are names of entries, of whatever kind, whose directories are looked for
	// on the way.
	Marks []string

	// Files is how many files are looked at for Repos.Outer; 0 means none.
	Files int

	// Link says whether a symbolic link is wanted, by its path relative to the root.
	// It is called by several goroutines at once. nil means none.
	Link func(path string) bool
}

// Scan finds the repositories at and below root, with default Options.
func Scan(ctx context.Context, root string) (*Repos, error) {
	return (*Options)(nil).Scan(ctx, root)
}

// Scan finds the repositories at and below root, an absolute path. It reads
// every directory below that is on the same mount, but does not enter git
// directories named .git, and follows no symbolic link but root itself. The
// error says that root could not be read, or is that of ctx; what cannot be
// read below is in Repos.Unread.
func (o *Options) Scan(ctx context.Context, root string) (*Repos, error) {
	opts := Options{MaxDirs: DefaultMaxDirs}
	if o != nil {
		opts = *o
		opts.MaxDirs = DefaultMaxDirs
		if o.MaxDirs > 0 {
			opts.MaxDirs = o.MaxDirs
		}
	}
	if opts.Home == "" {
		opts.Home, _ = os.UserHomeDir() // none: ~ leads nowhere
	}
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("scan %q: not an absolute path", root)
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	w, err := walk(ctx, root, &opts)
	if err != nil {
		return nil, fmt.Errorf("scan %q: %w", root, err)
	}
	r := reader{root: root, home: opts.Home}
	r.enclosing()
	for _, f := range w.found {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.read(f)
	}
	// The outermost first: a sandbox that makes repositories does not push out
	// those that were there.
	slices.SortStableFunc(r.trees, func(a, b Tree) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Top, "/"), strings.Count(b.Top, "/")), cmp.Compare(a.Top, b.Top))
	})
	return &Repos{
		Dirs:    r.dirs.sorted(),
		Links:   r.links.sorted(),
		Outside: r.outside.sorted(),
		Named:   slices.Sorted(slices.Values(w.named)),
		Marked:  slices.Sorted(slices.Values(w.marked)),
		Linked:  slices.Sorted(slices.Values(w.linked)),
		Skipped: slices.Sorted(slices.Values(w.skipped)),
		Unread:  slices.Sorted(slices.Values(w.unread)),
		Trees:   r.trees,

		Outer:       w.outer(),
		Credentials: r.credentials,
		Truncated:   w.truncated || r.truncated,
	}, nil
}

// A Credential is a setting with a password or a token.
type Credential struct {
	File string // of the configuration, relative to the scanned directory
	Key  string // such as remote.origin.url
}

// A Tree is a working tree of git. Both paths are relative to the scanned
// directory, and "." stands for that itself.
type Tree struct {
	Top string // the directory that holds the files, and something named .git
	Dir string // the git directory, with the index

	// Common is the git directory with the configuration and the objects: Dir
	// itself, but for a linked worktree.
	Common string
}

// A set is a set of paths relative to the root. The zero set is empty.
type set map[string]bool

func (s *set) add(path string) {
	if *s == nil {
		*s = set{}
	}
	(*s)[path] = true
}

func (s set) sorted() []string {
	paths := make([]string, 0, len(s))
	for p := range s {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}
