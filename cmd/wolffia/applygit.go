package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"wolffia/fusefs/cow"
	"wolffia/internal/excerpt"
	"wolffia/internal/gitsync"
	"wolffia/internal/hostgit"
	"wolffia/local"
	"wolffia/runtime"
)

// maxBranches bounds the branches that are taken at once.
const maxBranches = 1000

// A ref is a branch in a sandbox's repository, or HEAD, with its whole name.
type ref struct {
	name, commit string
	to           string // the branch of the host's that it becomes
}

// applyGit fetches the commits of a sandbox: those of all its branches as wolffia/SANDBOX/BRANCH, or those
// of what it is at as one branch. Git inside makes a pack, which the host's git receive-pack checks.
func (a *app) applyGit(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, branch string, dry bool) error {
	repo, err := hostgit.Open(ctx, s.CodebasePath)
	if err != nil {
		return err
	}
	if s.State != runtime.StateRunning {
		if err := rt.Start(ctx, s.ID); err != nil {
			return err
		}
		defer func() { _ = rt.Stop(context.WithoutCancel(ctx), s.ID) }()
	}
	// An error if the sandbox's repository is another one than the host's, as one that was moved.
	if _, err := rt.Changes(ctx, s.ID, runtime.ChangesOptions{}); err != nil {
		return err
	}
	inside, err := refsOf(ctx, rt, s)
	if err != nil {
		return err
	}
	lacks, err := repo.Lacks(ctx, commitsAt(inside))
	if err != nil {
		return err
	}
	wanted, err := wantedRefs(ctx, repo, s.ContainerName(), branch, inside, lacks)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		if !a.quiet {
			fmt.Fprintln(a.err, "wolffia: no commits inside that the host does not have")
		}
		return nil
	}
	switch {
	case dry:
	case !lacks[wanted[0].commit]: // only with a name for the branch
		args := []string{"branch", "--no-track", branch, wanted[0].commit}
		if _, behind := repo.Run(ctx, "merge-base", "--is-ancestor", "refs/heads/"+branch, wanted[0].commit); behind == nil {
			args = append(args, "--force") // which a branch that is checked out refuses
		}
		_, err = repo.Run(ctx, args...)
	default:
		err = a.fetch(ctx, rt, s, repo, wanted, branch == allBranches)
	}
	if err != nil {
		return err
	}
	for _, r := range wanted {
		fmt.Fprintf(a.out, "%s\t%s\n", printable(strings.TrimPrefix(r.to, "refs/heads/")), r.commit)
	}
	return nil
}

// wantedRefs returns what of the refs inside is to be fetched. Of allBranches those are the ones with
// commits that the host lacks.
func wantedRefs(ctx context.Context, repo *hostgit.Repo, sandbox, branch string, inside []ref, lacks map[string]bool) (wanted []ref, err error) {
	heads := make(map[string]bool)
	for _, r := range inside {
		heads[r.commit] = heads[r.commit] || r.name != "HEAD"
	}
	for _, r := range inside {
		short := strings.TrimPrefix(r.name, "refs/heads/")
		if r.name != "HEAD" {
			short = gitsync.PlainName(short)
		}
		r.to = "refs/heads/wolffia/" + sandbox + "/" + short
		if branch != allBranches {
			r.to = "refs/heads/" + branch
		}
		isHead := r.name == "HEAD"
		switch {
		case branch != allBranches && !isHead, branch == allBranches && (isHead && heads[r.commit] || !lacks[r.commit]):
			continue
		case len(wanted) == maxBranches:
			return nil, runtime.Errorf(runtime.ErrInvalid,
				"more than %d branches inside have commits that the host does not have: take one with --git=BRANCH", maxBranches)
		}
		wanted = append(wanted, r)
	}
	for _, r := range wanted { // a process each
		if _, err := repo.Run(ctx, "check-ref-format", r.to); err != nil || strings.HasPrefix(branch, "-") {
			return nil, runtime.Errorf(runtime.ErrInvalid,
				"%q cannot be the name of a branch: name another with --git=BRANCH", strings.TrimPrefix(r.to, "refs/heads/"))
		}
	}
	return wanted, nil
}

// fetch has git inside make a pack of what refs need, and the host's git check and take it. own says that the branches
// are the sandbox's own, and not one that the user has named: those are replaced.
func (a *app) fetch(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, repo *hostgit.Repo, wanted []ref, own bool) (err error) {
	known, err := repo.Known(ctx)
	if err != nil {
		return err
	}
	empty, err := os.MkdirTemp("", "wolffia-empty-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(empty)) }()
	dir, err := hostgit.OpenDir(ctx, filepath.Join(s.CodebasePath, ".git"), empty)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	// References of their own hold the objects until the branches have them.
	var held []hostgit.Ref
	revisions, gone, place := "", "", "refs/wolffia/in/apply-"+rand.Text()+"/"
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no", "."}
	for n, r := range wanted {
		name := place + strconv.Itoa(n)
		held = append(held, hostgit.Ref{Name: name, At: r.commit})
		revisions += r.commit + "\n"
		gone += "delete " + name + "\n"
		spec := name + ":" + r.to
		if own {
			spec = "+" + spec // the name is the sandbox's
		}
		args = append(args, spec)
	}
	pack := func(ctx context.Context, w io.Writer) error { return packInside(ctx, rt, s, revisions+known, w) }
	err = dir.Receive(ctx, held, pack, 0)
	if err != nil {
		return fmt.Errorf("take the commits inside: %w", err)
	}
	_, err = repo.Run(ctx, args...)
	_, _, left := dir.Run(context.WithoutCancel(ctx),
		hostgit.Command{Args: []string{"update-ref", "--stdin"}, In: strings.NewReader(gone)})
	if err != nil {
		if _, missing := repo.Run(ctx, "rev-parse", "--verify", "--quiet", wanted[0].to); !own && missing == nil {
			return runtime.Errorf(runtime.ErrConflict, "branch %s exists, and is not behind what the sandbox is at, or it is checked out: name another with --git=BRANCH (%w)", strings.TrimPrefix(wanted[0].to, "refs/heads/"), err)
		}
	}
	return errors.Join(err, left)
}

// commitsAt returns what refs are at, each once.
func commitsAt(refs []ref) (commits []string) {
	seen := make(map[string]bool)
	for _, r := range refs {
		if !seen[r.commit] {
			seen[r.commit], commits = true, append(commits, r.commit)
		}
	}
	return commits
}

// packScript writes a pack with what the revisions of its input need. What the host has and the
// sandbox does not is no hindrance.
const packScript = `git -c core.hooksPath=/dev/null -c core.fsmonitor=false rev-list --objects --ignore-missing --stdin |
git -c core.hooksPath=/dev/null -c core.fsmonitor=false pack-objects --stdout -q`

// packInside writes the pack that git inside makes of revisions, one on a line (git-rev-list(1)).
// It need not be one: the host's git checks it.
func packInside(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, revisions string, to io.Writer) (err error) {
	p, err := rt.StartProcess(ctx, s.ID,
		&runtime.ProcessSpec{Command: []string{"sh", "-c", packScript}, Cwd: s.MountPoint, Stdin: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	go func() { // ends with the process
		_, _ = io.WriteString(p.Stdin(), revisions)
		_ = p.Stdin().Close()
	}()
	said := excerpt.New(4096, 1024)
	done := make(chan struct{})
	go func() { // ends with the process
		defer close(done)
		_, _ = io.Copy(said, p.Stderr())
	}()
	if _, err := io.Copy(to, p.Stdout()); err != nil {
		return err
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	<-done
	if exit.Code != 0 {
		text, _ := said.Result()
		return fmt.Errorf("git pack-objects inside: exit code %d: %s", exit.Code, printable(string(text)))
	}
	return nil
}

// commitsOf returns how many commits the repositories have that changes of a sandbox are about: the
// one at the top those that the host does not have, and those below it those that no remote has. It
// counts up to 1000 in each. git on the host is not run in what is below.
func commitsOf(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, changes []runtime.Change) (n, below int, err error) {
	for i := range changes {
		dir, name := path.Split(changes[i].Path)
		if !cow.IsGit(name) {
			continue
		}
		var more int
		if dir == "" {
			n, err = commitsAtTop(ctx, rt, s)
		} else {
			in := *s
			in.MountPoint = path.Join(s.MountPoint, dir)
			more, err = countInside(ctx, rt, &in, "", "--git-dir="+name, "rev-list", "--count", "--max-count=1000", "--all",
				"--not", "--remotes")
		}
		if err != nil && !noRepository(ctx, rt, s, path.Join(s.MountPoint, dir, name)) {
			return 0, 0, err
		}
		below += more
	}
	return n, below, nil
}

// noRepositoryScript ends with 0 if $1 cannot have or lead to commits: it is gone, an empty file, or a directory
// without objects. A damaged repository, which git refuses as well, has some.
const noRepositoryScript = `if test -d "$1"; then test ! -e "$1/objects" && test ! -e "$1/commondir"; else test ! -s "$1" && test ! -L "$1"; fi`

// noRepository reports whether what has the name of a git directory at a path inside is none, such as the mark of a
// project's root. It is false if that is not known.
func noRepository(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, at string) bool {
	res, err := rt.Exec(ctx, s.ID,
		&runtime.ExecRequest{Command: []string{"sh", "-c", noRepositoryScript, "-", at}, Cwd: "/", Timeout: gitLimit})
	return err == nil && res.ExitCode == 0
}

// commitsAtTop returns how many commits the sandbox's branches and HEAD have that the host does not have.
func commitsAtTop(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox) (int, error) {
	repo, err := hostgit.Open(ctx, s.CodebasePath)
	if err != nil {
		return 0, err
	}
	refs, err := refsOf(ctx, rt, s)
	if err != nil {
		return 0, err
	}
	commits := commitsAt(refs)
	if lacks, err := repo.Lacks(ctx, commits); err != nil || len(lacks) == 0 {
		return 0, err
	}
	in, err := repo.Known(ctx)
	if err != nil {
		return 0, err
	}
	in += strings.Join(commits, "\n") + "\n"
	return countInside(ctx, rt, s, in, "rev-list", "--count", "--max-count=1000", "--ignore-missing", "--stdin")
}

// countInside returns the number that git inside prints.
func countInside(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, in string, args ...string) (int, error) {
	out, err := gitInside(ctx, rt, s, in, 64, args...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("git inside counts commits as %q", out)
	}
	return n, nil
}

// refsOf returns the branches of a sandbox's repository and its HEAD, as git inside says.
func refsOf(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox) (refs []ref, err error) {
	out, err := gitInside(ctx, rt, s, "", 8<<20, "show-ref", "--head", "--heads")
	if err != nil {
		return nil, fmt.Errorf("branches inside: %w", err)
	}
	for line := range strings.Lines(out) {
		commit, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !isHash(commit) || name != "HEAD" && !strings.HasPrefix(name, "refs/heads/") || strings.ContainsAny(name, ":\x00") {
			return nil, fmt.Errorf("git inside names a branch as %q", line)
		}
		refs = append(refs, ref{name: name, commit: commit})
	}
	return refs, nil
}

// isHash reports whether s is the name of an object.
func isHash(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// gitCommand begins a command of git inside.
var gitCommand = []string{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}

// gitInside runs git in a sandbox that runs, at the top of its codebase, and returns what it prints: at
// most the given number of bytes.
func gitInside(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, in string, most int, args ...string) (string, error) {
	res, err := rt.Exec(ctx, s.ID, &runtime.ExecRequest{
		Command: append(slices.Clone(gitCommand), args...), Cwd: s.MountPoint, Stdin: strings.NewReader(in), MaxOutput: most, Timeout: gitLimit,
	})
	switch {
	case err != nil:
		return "", err
	case res.Truncated():
		return "", fmt.Errorf("git %s inside prints more than %d bytes", args[0], most)
	case res.ExitCode != 0:
		return "", fmt.Errorf("git %s inside: exit code %d: %s", args[0], res.ExitCode, printable(string(res.Stderr)))
	}
	return string(res.Stdout), nil
}

// gitLimit is how long a command of git inside may take.
const gitLimit = time.Minute
