package review

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/fusefs/cow"
	"wolffia/internal/git/gitsync"
	"wolffia/runtime"
)

// applyGit makes the commits of a sandbox branches of the host: those of all its branches
// wolffia/SANDBOX/BRANCH, in each repository, or those of what the one at the top is at one
// branch.
func (rv *Reviewer) applyGit(ctx context.Context, s *runtime.Sandbox, branch string, dry bool) error {
	undo, err := rv.run(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = undo(context.WithoutCancel(ctx)) }()
	// An error if the sandbox's repository is another one than the host's, as one that was moved.
	changes, err := rv.rt.Changes(ctx, s.ID, runtime.ChangesOptions{})
	if err != nil {
		return err
	}
	dirs := gitDirs(changes)
	if branch != allBranches || len(dirs) == 0 {
		dirs = []string{""}
	}
	n := 0
	var failed error
	for _, dir := range dirs {
		made, err := rv.exportGit(ctx, s, dir, strings.TrimPrefix(branch, allBranches), dry)
		for _, b := range made {
			fmt.Fprintln(rv.Out, strings.TrimSuffix(console.Printable(b.Name)+"\t"+b.At+"\t"+console.Printable(dir), "\t"))
		}
		n, failed = n+len(made), errors.Join(failed, err)
	}
	if failed == nil && n == 0 {
		rv.Note("no commits inside that the host does not have")
	}
	return failed
}

// exportGit is applyGit for the repository in one directory.
func (rv *Reviewer) exportGit(
	ctx context.Context, s *runtime.Sandbox, dir, branch string, dry bool,
) ([]gitsync.Branch, error) {
	if dir != "" {
		commits, hosted, err := rv.rt.AheadGit(ctx, s.ID, dir)
		switch {
		case err != nil && rv.noRepository(ctx, s, path.Join(s.MountPoint, dir, ".git")), err == nil && commits == 0:
			return nil, nil
		case err == nil && !hosted:
			rv.Warn("%s is a repository only inside: copy it with wolffia cp", console.Printable(dir))
			return nil, nil
		}
	}
	made, err := rv.rt.ExportGit(ctx, s.ID, dir, branch, dry)
	if !dry {
		var names []string
		for _, b := range made {
			names = append(names, b.Name+" "+b.At)
		}
		rv.record(history.KindExport, s, len(made), names)
	}
	return made, err
}

// gitDirs returns the directories whose repositories changes are about, "" for the top.
func gitDirs(changes []runtime.Change) (dirs []string) {
	for i := range changes {
		if dir, name := path.Split(changes[i].Path); cow.IsGit(name) {
			dirs = append(dirs, strings.TrimSuffix(dir, "/"))
		}
	}
	return dirs
}

// A Repository is one that changes of a sandbox are about.
type Repository struct {
	Dir     string // relative to the codebase; empty: its top
	Commits int    // that the host does not have, or no remote if it is not Hosted; up to 1000
	Hosted  bool   // the host has a repository there
}

// Repositories returns the repositories that changes of a running sandbox are about.
func (rv *Reviewer) Repositories(
	ctx context.Context, s *runtime.Sandbox, changes []runtime.Change,
) (all []Repository, err error) {
	for _, dir := range gitDirs(changes) {
		commits, hosted, err := rv.rt.AheadGit(ctx, s.ID, dir)
		if err != nil && !rv.noRepository(ctx, s, path.Join(s.MountPoint, dir, ".git")) {
			return nil, err
		}
		if err == nil {
			all = append(all, Repository{dir, commits, hosted})
		}
	}
	return all, nil
}

// commitsOf returns how many commits the repositories have that changes of a sandbox are about: n
// that the host does not have, and of repositories that are only inside, those that no remote has.
func (rv *Reviewer) commitsOf(
	ctx context.Context, s *runtime.Sandbox, changes []runtime.Change,
) (n, inside int, err error) {
	all, err := rv.Repositories(ctx, s, changes)
	for _, r := range all {
		if r.Hosted {
			n += r.Commits
		} else {
			inside += r.Commits
		}
	}
	return n, inside, err
}

// noRepositoryScript ends with 0 if $1 cannot have or lead to commits: it does not exist, is an empty file,
// or a directory without objects. A damaged repository, which git refuses as well, has some.
const noRepositoryScript = `if test -d "$1"; then test ! -e "$1/objects" && test ! -e "$1/commondir"; else test ! -s "$1" && test ! -L "$1"; fi`

// noRepository reports whether a file with a git directory's name at a path inside is not one, such
// as the mark of a project's root. It is false if that is not known.
func (rv *Reviewer) noRepository(ctx context.Context, s *runtime.Sandbox, at string) bool {
	res, err := rv.rt.Exec(ctx, s.ID,
		&runtime.Command{Command: []string{"sh", "-c", noRepositoryScript, "-", at}, Cwd: "/", Timeout: gitLimit})
	return err == nil && res.ExitCode == 0
}

// gitLimit is how long a command of git inside may take.
const gitLimit = time.Minute
