// Package gitscan finds the git repositories in a tree without running git. For each it lists what
// its configuration makes the host user's git run. A sandbox may be able to write the tree, and
// the user's git trusts the files there. The paths that Scan returns have to be read-only, except
// for entries called .git: the sandbox has a copy of those.
//
//	repos, err := gitscan.Scan(ctx, "/home/ann/project", nil)
//	for _, dir := range repos.Dirs { // ".git", "vendor/x/.git"
//
// Scan takes a directory for a git directory by the names in it, as git does. It also reads the
// repository that the tree is a part of, and the user's own configuration (~/.gitconfig), for what
// those run in the tree. It does not find repositories that are made later.
//
// The tree is hostile: sizes are bounded, symbolic links are followed only
// where git follows them, and only regular files are opened.
package gitscan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// defaultMaxDirs bounds the directories that a scan reads.
const defaultMaxDirs = 200_000

// MaxFolders bounds Repos.Folders: if there are as many, there may be more.
const MaxFolders = maxFound

// Repos is the result of a scan. All paths are relative to the scanned directory, clean
// and sorted, with every symbolic link in them resolved.
type Repos struct {
	// Dirs are the git directories: ".git", "vendor/x/.git", "x.git", or "."
	// if the scanned directory is itself a bare repository. Among them are
	// those that a .git file points to.
	Dirs []string

	// Links are the files and symbolic links that lead git to a repository: those named
	// .git, of linked worktrees and submodules, and symbolic links on the way to a path
	// in Dirs or Outside. Replacing one replaces the configuration and the hooks.
	Links []string

	// Outside are the paths that a repository makes git execute, include or trust beside
	// the content of its git directory: other directories of hooks and of objects,
	// included files, programs, and the targets of links among the hooks. They need not
	// exist. "." means everything.
	Outside []string

	// Later are relative paths that the user's own configuration makes git execute in each
	// working tree, also in those that are made later: such as a relative core.hooksPath.
	// They are not relative to the scanned directory.
	Later []string

	// NotGit are the directories whose names end in ".git", but for ".git" itself, that are not
	// git's, up to 10,000.
	NotGit []string

	// Named are the regular files with one of Options.Names, up to 10,000.
	Named []string

	// Marked are the directories with an entry with one of Options.Marks, up to 10,000.
	Marked []string

	// Folders are the directories that were read and for which Options.Folder returns true, up to MaxFolders.
	Folders []string

	// Linked are the symbolic links for which Options.Link returns true, up to 10,000.
	Linked []string

	// Skipped are the directories on other mounts, which were not read.
	Skipped []string

	// Unread are the directories that could not be read: for lack of permission, or because the
	// path is too long for the kernel. They may be or have repositories.
	Unread []string

	// Credentials are the settings, in files below the scanned directory, whose value is
	// a password or a token, or has one in an address.
	Credentials []Credential

	// Trees are the working trees at and below the scanned directory, also those of linked
	// worktrees and submodules, wherever their git directories are.
	Trees []Tree

	// Outer is the number of files with hard links outside of the tree, among the first
	// Options.Files files, without files in git directories.
	Outer int

	// Truncated is set if a limit was reached: every list may be incomplete.
	Truncated bool
}

// Options are the settings of a scan. The zero value, and nil, mean the
// defaults.
type Options struct {
	MaxDirs int    // bound of the directories to read; 0 means 200,000
	Home    string // what ~ means in a configuration, where the user's own one is; "" means os.UserHomeDir

	// Getenv returns the variables by which the user has configurations elsewhere
	// (GIT_CONFIG_GLOBAL and others of git(1)); nil means os.Getenv.
	Getenv func(string) string

	// Names are the names, in lower case, of files for Repos.Named. They match letters
	// of either case.
	Names []string

	// Marks are the names of entries of any kind for Repos.Marked.
	Marks []string

	// Files bounds the files that are counted for Repos.Outer; 0 means none.
	Files int

	// Link reports, by the path relative to the root, whether a symbolic link belongs to
	// Repos.Linked. Several goroutines call it at once. nil means no link does.
	Link func(path string) bool

	// Folder tells, by the path relative to the root, whether a directory belongs to Repos.Folders.
	// Several goroutines call it at once. nil means none.
	Folder func(path string) bool

	// Found is called when the first repository is found, while the scan continues. It must not
	// wait. It may be nil.
	Found func()
}

// Scan finds the repositories at and below root, an absolute path. It reads every
// directory on the mount of root, does not enter git directories named .git, and follows
// no symbolic link but root itself. It returns an error if root cannot be read, or that
// of ctx; directories that cannot be read are in Repos.Unread.
func Scan(ctx context.Context, root string, o *Options) (*Repos, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MaxDirs <= 0 {
		opts.MaxDirs = defaultMaxDirs
	}
	if opts.Home == "" {
		opts.Home, _ = os.UserHomeDir() // without one ~ is not expanded
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
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
		if path := filepath.Join(root, f.path); f.bare {
			r.repository(path, path)
		} else {
			r.open(path)
		}
	}
	r.own(ownFiles(opts.Home, opts.Getenv))
	// The outermost first, so that repositories that a sandbox makes do not displace
	// existing ones beyond a limit.
	slices.SortStableFunc(r.trees, func(a, b Tree) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Top, "/"), strings.Count(b.Top, "/")), cmp.Compare(a.Top, b.Top))
	})
	return &Repos{
		Dirs:    slices.Sorted(maps.Keys(r.dirs)),
		Links:   slices.Sorted(maps.Keys(r.links)),
		Outside: slices.Sorted(maps.Keys(r.outside)),
		Later:   slices.Sorted(maps.Keys(r.later)),
		NotGit:  slices.Sorted(slices.Values(w.notGit)),
		Named:   slices.Sorted(slices.Values(w.named)),
		Marked:  slices.Sorted(slices.Values(w.marked)),
		Folders: slices.Sorted(slices.Values(w.folders)),
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

// A Tree is a working tree of git.
type Tree struct {
	Top string // the directory with the files and an entry named .git, relative to the scanned one, which is "."
	Dir string // the git directory, with the index; absolute, without links

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
