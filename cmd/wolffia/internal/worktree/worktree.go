// Package worktree gives a sandbox a working tree of git of its own.
package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/fields"
	"wolffia/internal/git/hostgit"
	"wolffia/internal/shellword"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
)

// The labels of a sandbox with a working tree of its own: its branch, the commit at which wolffia
// has made the branch, if it has, and the directory's name, if that is not
// policy.FormerWorktreeName.
const (
	labelWorktree     = "wolffia.worktree"
	labelWorktreeBase = "wolffia.worktree.base"
	labelWorktreeName = "wolffia.worktree.name"
)

// Flags know the working tree of git that --worktree has made for the sandbox.
type Flags struct {
	made *worktree // by apply; nil: none, or one that was there
}

// A worktree is a working tree of git below policy.WorktreeDir of a codebase.
type worktree struct {
	codebase, branch string
	Name             string // of its directory
	base             string // the commit at which wolffia has made the branch; empty: it was there
}

func (w *worktree) path() string { return filepath.Join(w.codebase, policy.WorktreeDir, w.Name) }

// Of returns the working tree of a sandbox with these labels, or nil.
func Of(codebase string, labels map[string]string) *worktree {
	branch := labels[labelWorktree]
	if branch == "" {
		return nil
	}
	return &worktree{codebase, branch, cmp.Or(labels[labelWorktreeName], policy.FormerWorktreeName(branch)), labels[labelWorktreeBase]}
}

// Apply makes the working tree for c, which has its codebase already, or takes the one that an
// earlier sandbox has left, and returns its name.
func (f *Flags) Apply(ctx context.Context, h *host.Host, c *runtime.SandboxConfig, values fields.Values) (name string, err error) {
	branch, cwd := values.Text("worktree"), values.Text("cwd")
	if branch == "" {
		return "", nil
	}
	codebase, err := hostdir.RealPath(c.CodebasePath)
	switch {
	case c.CodebasePath == "":
		return "", runtime.Errorf(runtime.ErrInvalid, "--worktree %s: the sandbox has no codebase: leave --no-codebase out", branch)
	case err != nil:
		return "", nil // Create says what is wrong
	case c.MountPoint == "":
		c.MountPoint = codebase
	case c.MountPoint != codebase:
		return "", runtime.Errorf(runtime.ErrInvalid, "--worktree %s: git writes the codebase's path into the working tree, so it must appear inside at %s: leave --mount-point out", branch, codebase)
	}
	w := &worktree{codebase: codebase, branch: branch}
	repo, list, err := w.locate(ctx)
	if err != nil {
		return "", fmt.Errorf("--worktree %s: %w", branch, err)
	}
	if err := unused(ctx, h, w); err != nil {
		return "", err
	}
	made, err := w.add(ctx, repo, list)
	if err != nil {
		return "", fmt.Errorf("--worktree %s: %w", branch, err)
	}
	if made {
		f.made = w
	}
	if cwd == "" {
		c.Cwd = w.path()
	} else {
		c.Cwd = hostdir.Inside(cwd, w.path())
	}
	c.Labels[labelWorktree] = w.branch
	if w.base != "" {
		c.Labels[labelWorktreeBase] = w.base
	}
	if w.Name != policy.FormerWorktreeName(w.branch) {
		c.Labels[labelWorktreeName] = w.Name
	}
	return w.Name, nil
}

// Undo removes the working tree that apply has made, unless a sandbox has it.
func (f *Flags) Undo(ctx context.Context, h *host.Host) {
	if f.made == nil {
		return
	}
	if err := f.made.remove(context.WithoutCancel(ctx)); err != nil {
		h.Warn("%s", console.Printable(err.Error()))
	}
	f.made = nil
}

// Taken says that a sandbox has the working tree: undo leaves it.
func (f *Flags) Taken() { f.made = nil }

// unused returns an error if a sandbox has the branch, or the directory, whatever branch it has
// switched to in there.
func unused(ctx context.Context, h *host.Host, w *worktree) error {
	rt, err := h.Open("")
	if err != nil {
		return err
	}
	all, err := rt.List(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if other := Of(s.CodebasePath, s.Labels); other != nil && other.codebase == w.codebase && (other.branch == w.branch || other.Name == w.Name) {
			return runtime.Errorf(runtime.ErrConflict, "--worktree %s: sandbox %s has it: take another branch, or wolffia rm %s", w.branch, s.ContainerName(), s.ContainerName())
		}
	}
	return nil
}

// locate sets the name of the directory that the branch has, or is to have, and returns the
// repository of the codebase and its working trees, as git worktree list --porcelain -z prints
// them.
func (w *worktree) locate(ctx context.Context) (repo *hostgit.Repo, list string, err error) {
	repo, err = hostgit.Open(ctx, w.codebase)
	if err != nil {
		return nil, "", err
	}
	if _, err := repo.Run(ctx, "check-ref-format", "refs/heads/"+w.branch); err != nil || strings.HasPrefix(w.branch, "-") {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "%q cannot be the name of a branch: see git check-ref-format --help", w.branch)
	}
	list, err = repo.Run(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil { // git before 2.36
		if list, err = repo.Run(ctx, "worktree", "list", "--porcelain"); err != nil {
			return nil, "", err
		}
		list = strings.ReplaceAll(list, "\n", "\x00")
	}
	w.Name = policy.FormerWorktreeName(w.branch)
	if at, _ := branchAt(list, w.path()); at != w.branch { // else an earlier version has made it
		w.Name = policy.WorktreeName(w.branch)
	}
	return repo, list, nil
}

// add makes the working tree, and the branch if the repository does not have it. The caller gets
// repo and list from locate. made is false if an earlier sandbox has left the working tree.
func (w *worktree) add(ctx context.Context, repo *hostgit.Repo, list string) (made bool, err error) {
	if at, known := branchAt(list, w.path()); known {
		_, err := os.Lstat(w.path())
		switch {
		case errors.Is(err, fs.ErrNotExist): // only the directory was removed
			if _, err := repo.Run(ctx, "worktree", "remove", "--force", "--force", w.path()); err != nil {
				return false, err
			}
		case at == w.branch:
			return false, nil
		default:
			return false, runtime.Errorf(runtime.ErrConflict, "%s is there already, for branch %q: git worktree remove %s", w.path(), at, w.path())
		}
	}
	if _, err := repo.Run(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.branch); err != nil {
		if w.base, err = repo.Run(ctx, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
			return false, runtime.Errorf(runtime.ErrInvalid, "the repository has no commit to begin a branch at: make one")
		}
		if _, err := repo.Run(ctx, "branch", "--no-track", w.branch, w.base); err != nil {
			return false, err
		}
	}
	dir := filepath.Dir(w.path())
	if err = makeWorktreeDir(dir); err == nil {
		if _, err = repo.Run(ctx, "worktree", "add", "--quiet", w.path(), w.branch); err == nil {
			return true, nil
		}
		removeWorktreeDir(dir)
	}
	return false, errors.Join(err, w.removeBranch(context.WithoutCancel(ctx), repo))
}

// makeWorktreeDir makes the directory of working trees, with the file that has git ignore it. The
// file also keeps sandboxes from replacing the directory.
func makeWorktreeDir(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	is := func() bool { // also before, since a repository can have a link of that name
		named, err := os.Lstat(dir)
		return err == nil && os.SameFile(named, opened)
	}
	if !is() {
		return runtime.Errorf(runtime.ErrConflict, "%s is a link: remove it", dir)
	}
	f, err := root.OpenFile(".gitignore", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = f.WriteString("*\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !is() {
		return runtime.Errorf(runtime.ErrConflict, "%s was replaced: try again", dir)
	}
	return nil
}

// removeWorktreeDir removes the directory of working trees if it is empty.
func removeWorktreeDir(dir string) {
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != ".gitignore" {
		return
	}
	_ = os.Remove(filepath.Join(dir, ".gitignore"))
	_ = os.Remove(dir) // another wolffia may have made a working tree in it meanwhile
}

// branchAt finds the working tree at a path in the answer of git worktree list --porcelain -z, and
// returns its branch; empty: none.
func branchAt(list, dir string) (branch string, known bool) {
	for entry := range strings.SplitSeq(list, "\x00\x00") {
		lines := strings.Split(entry, "\x00")
		if lines[0] != "worktree "+dir {
			continue
		}
		for _, line := range lines {
			if name, is := strings.CutPrefix(line, "branch refs/heads/"); is {
				return name, true
			}
		}
		return "", true
	}
	return "", false
}

// remove removes the working tree with all that is in it, and the branch if wolffia has made it
// and nothing was committed to it. The sandbox must have ended.
func (w *worktree) remove(ctx context.Context) error {
	repo, err := hostgit.Open(ctx, w.codebase)
	if err != nil {
		return err
	}
	// Twice: the working tree of a sandbox goes although it is locked.
	if _, err := repo.Run(ctx, "worktree", "remove", "--force", "--force", w.path()); err != nil {
		return err
	}
	removeWorktreeDir(filepath.Dir(w.path()))
	return w.removeBranch(ctx, repo)
}

// removeBranch removes the branch if wolffia has made it and nothing was committed to it.
func (w *worktree) removeBranch(ctx context.Context, repo *hostgit.Repo) error {
	if w.base == "" {
		return nil
	}
	tip, err := repo.Run(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.branch)
	if err != nil || tip != w.base {
		return nil // the sandbox has removed it, or it has commits
	}
	_, err = repo.Run(ctx, "update-ref", "-d", "refs/heads/"+w.branch, w.base)
	return err
}

// Destroy destroys a sandbox, and then its working tree if nothing is lost by that.
func Destroy(ctx context.Context, h *host.Host, rt *local.Runtime, ref string) error {
	var w *worktree
	keeps := false
	if s, err := rt.Get(ctx, ref); err == nil {
		if w = Of(s.CodebasePath, s.Labels); w != nil && s.State.Runs() {
			if s.State == runtime.StatePaused {
				_ = rt.Resume(ctx, s.ID)
			}
			keeps = keepsWorktree(ctx, rt, s.ID, w)
		}
	}
	if err := rt.Destroy(ctx, ref); err != nil || w == nil {
		return err
	}
	return endWorktree(ctx, h, w, keeps)
}

// stateLimit is how long git inside may take to say what is lost with a working tree.
const stateLimit = time.Minute

// keepsWorktree reports whether git inside says that something is lost with a working tree: it
// knows where HEAD was, which does not cross. What it does not say is asked once more without the
// sandbox.
func keepsWorktree(ctx context.Context, rt *local.Runtime, id string, w *worktree) bool {
	res, err := rt.Exec(ctx, id, &runtime.Command{
		Command: []string{"sh", "-c", worktreeStateScript}, Cwd: w.path(), Env: map[string]string{"GIT_OPTIONAL_LOCKS": "0"}, Timeout: stateLimit,
		MaxOutput: 1,
	})
	return err == nil && len(res.Stdout) > 0
}

// endWorktree removes the working tree of a sandbox that was destroyed, unless something in it
// is not committed, or keeps is set, and says what is left.
func endWorktree(ctx context.Context, h *host.Host, w *worktree, keeps bool) error {
	if _, err := os.Lstat(w.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	state, err := worktreeState(ctx, h, w)
	if err != nil {
		return fmt.Errorf("the working tree %s stays: %w", w.path(), err)
	}
	if state != "" || keeps {
		h.Warn("the working tree stays, since it has what is not committed, or a submodule with commits that no remote has: look with wolffia run --worktree %s -- git status, take it up again with --worktree %s, remove it with git worktree remove --force %s",
			shellword.Quote(w.branch), shellword.Quote(w.branch), shellword.Quote(w.path()))
		return nil
	}
	return w.remove(ctx)
}

// worktreeStateScript prints something if removing the working tree that it runs in would lose
// work. The git directory of a submodule is in that of the working tree, or in the working tree,
// and goes with it: so do commits there that no remote has. git status does not report them once
// the working tree has committed the submodule. A submodule's repository is cloned into the
// working tree, so that it has from elsewhere what the codebase pinned when the working tree was
// made, and the tags of commits at which its HEAD never was.
const worktreeStateScript = `git symbolic-ref -q HEAD >/dev/null || echo detached
git status --porcelain --untracked-files=normal --ignore-submodules=none || echo unknown
export pinned="$(git ls-tree -r "$(git rev-list -g HEAD | tail -n 1)" | sed -n 's/^160000 commit \([0-9a-f]*\).*/\1/p')"
export own='own() {
	been=$(git --git-dir="$1" log -g --format=%H)
	tags=$(git --git-dir="$1" for-each-ref --format="%(objectname) %(*objectname)" refs/tags | grep -F "$been")
	cloned=$(echo "$pinned" | git --git-dir="$1" cat-file --batch-check | sed -n "s/ commit .*//p")
	git --git-dir="$1" rev-list -n 1 --exclude="refs/tags/*" --all $tags --not --remotes $cloned || echo unknown
}'
eval "$own"
modules=$(git rev-parse --git-dir)/modules
test ! -e "$modules" || find "$modules" -name HEAD -exec sh -c '
eval "$own"
for head; do
	test ! -e "${head%/HEAD}/objects" || own "${head%/HEAD}"
done' - {} + || echo unknown
git ls-files --stage | while read -r mode id stage path; do
	test "$mode" != 160000 || case $path in
	\"*) echo submodule ;;
	*) test ! -e "$path/.git" || own "$path/.git" ;;
	esac
done`

// worktreeState returns what git status says of a working tree, empty if all is committed on a
// branch. It asks in a sandbox: what is in the working tree could lead git elsewhere.
func worktreeState(ctx context.Context, h *host.Host, w *worktree) (string, error) {
	rt, err := h.Open("")
	if err != nil {
		return "", err
	}
	// All can be seen, so that what the rules of the sandbox hid counts too.
	rules, err := policy.For(ctx, w.codebase, &policy.Options{
		Preset: "read-only", Reveals: []perm.Rule{{Pattern: "**", Level: perm.Read}}, StateDir: h.StateDir,
	})
	if err != nil {
		return "", err
	}
	sb, err := runtime.Launch(ctx, rt, &runtime.SandboxConfig{
		CodebasePath: w.codebase, MountPoint: w.codebase, Cwd: w.path(), Permissions: rules.Rules, BoundToCaller: true,
		Env: map[string]string{"GIT_OPTIONAL_LOCKS": "0"},
	})
	if err != nil {
		return "", err
	}
	defer sb.Destroy(context.WithoutCancel(ctx))
	res, err := sb.Exec(ctx, "sh", "-c", worktreeStateScript)
	if err != nil {
		return "", err
	}
	return string(res.Stdout), nil
}
