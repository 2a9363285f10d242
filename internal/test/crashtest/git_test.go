package crashtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// inGit is what git inside does before someone is killed: references in one transaction, HEAD, the index, a stash, a deletion, a repository
// that goes and one that comes.
const inGit = `set -e
echo two >>a; git commit -qam two; git checkout -qb new; echo three >>a; git commit -qam three; git branch -qD topic
git branch p; git tag q
echo four >>a; git stash -q; echo staged >b; git add b
rm -rf old; git init -q -b main sub; git -C sub commit -q --allow-empty -m sub; echo x >.done`

// identity are flags for git inside.
var identity = []string{"-e", "GIT_AUTHOR_NAME=a", "-e", "GIT_AUTHOR_EMAIL=a@b", "-e", "GIT_COMMITTER_NAME=a", "-e", "GIT_COMMITTER_EMAIL=a@b"}

// gitLook is what both sides have of it.
const gitLook = `git symbolic-ref HEAD; git for-each-ref; git stash list --format=%H; git diff --cached --raw --no-abbrev; git status --porcelain -uno
if [ -e sub/.git ]; then git -C sub rev-parse HEAD; git -C sub symbolic-ref HEAD; git -C sub status --porcelain; fi; ls -d old 2>/dev/null; true`

// gitLeft is what no process leaves on the host.
const gitLeft = `ls -d .wolffia-new-* .git/*.lock .git/index.* sub/.git/*.lock .git/objects/*incoming* 2>/dev/null; git for-each-ref refs/wolffia
git fsck --strict --no-dangling 2>&1`

// A process that carries commits to the host is killed at each of its steps: what it has moved, it has moved as a whole; the next command,
// or the end of the sandbox, puts right what it has left.
func TestGitKills(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "git")
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	for _, op := range gitOperations() {
		rounds, _ := w.survey(&op)
		tried := map[string]bool{}
		for _, r := range rounds {
			if r.victim != theCaller || tried[r.at.name] && os.Getenv(roundsVariable) == "" && !testenv.Full() {
				continue
			}
			tried[r.at.name] = true
			if !strings.Contains(r.String(), os.Getenv(onlyVariable)) {
				continue
			}
			ok := t.Run(r.String(), func(t *testing.T) {
				outer := w.T
				defer func() { w.T = outer }()
				w.TB = t
				if !w.do(r) {
					t.Error("no process was killed")
				}
			})
			if !ok { // what is left would be the next one's
				w.endAll()
				w = newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
			}
		}
		for _, name := range []string{"git: name claimed", "git: directory made", "git: complete"} {
			if !tried[name] {
				t.Errorf("%s has no step %q", op.name, name)
			}
		}
	}
}

// gitOperations are commands; the next command does the rest of them, or none does.
func gitOperations() []operation {
	work := func(w *world, s *subject) *call { return w.cli("exec", s.id, "--", "true") }
	return []operation{
		{name: "git, then a command", steps: "git", prepare: withGit, begin: work, judge: judgeGit},
		{name: "git, then rm", steps: "git: ", prepare: withGit, begin: work, judge: judgeGitGone},
		{name: "git in run", steps: "git: ", prepare: func(w *world) subject { w.gitCodebase(); return subject{} }, begin: func(w *world, _ *subject) *call {
			return w.cli(slices.Concat([]string{"run", "--codebase", w.codebase, "--rule", "**=write"}, identity, []string{"--", "sh", "-c", inGit})...)
		}, judge: judgeGitGone},
	}
}

// gitCodebase makes the codebase a repository.
func (w *world) gitCodebase() {
	w.Helper()
	old, err := os.ReadDir(w.codebase)
	w.OK(err)
	for _, e := range old {
		w.OK(os.RemoveAll(filepath.Join(w.codebase, e.Name())))
	}
	w.host("git init -q -b main . && printf '.go\\n.done\\n.log\\n' >.git/info/exclude && echo one >a && git add a && git commit -qm one && git branch topic")
}

// host runs a script in the codebase on the host.
func (w *world) host(script string) string {
	w.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = w.codebase, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("%s: got err %v, out %s; want err == nil", script, err, out)
	}
	return string(out)
}

// withGit makes a sandbox over a repository, in which it has made the repository old. No process of the host has seen yet what it has done
// after that.
func withGit(w *world) subject {
	w.Helper()
	w.gitCodebase()
	s := made(w, identity...)
	w.inside(s.id, "git init -q -b main old && git -C old commit -q --allow-empty -m old")
	w.host("git -C old log -1")
	w.inside(s.id, "{ until [ -e .go ]; do sleep 0.01; done; "+inGit+"; } >.log 2>&1 &")
	w.host("touch .go; timeout 60 sh -c 'until [ -e .done ]; do sleep 0.01; done'")
	return s
}

// inside runs a script in a sandbox by a command line, which must say nothing of git.
func (w *world) inside(id, script string) string {
	w.Helper()
	cmd := w.command("wolffia", "exec", id, "--", "sh", "-c", script)
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%s: got err %v, %s; want err == nil", script, err, &says)
	}
	return string(out)
}

// judgeGit checks that nothing has moved, or all of a transaction, and that the next command does the rest.
func judgeGit(w *world, r *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	if refs := w.host("git for-each-ref --format='%(refname)' refs/heads/p refs/tags/q"); refs != "" && refs != "refs/heads/p\nrefs/tags/q\n" {
		w.Errorf("a part has moved: %s", refs)
	}
	w.inside(e.id, "true")
	if left := w.host(gitLeft); left != "" {
		w.Errorf("left: %s", left)
	}
	there, here := w.inside(e.id, gitLook), w.host(gitLook)
	if there != here || !strings.HasPrefix(here, "refs/heads/new\n") || strings.Contains(here, "topic") || strings.Contains(here, "old\n") || !strings.Contains(here, "A\tb") {
		w.Errorf("inside is\n%s, the host has\n%s", there, here)
	}
	cmd := w.command("wolffia", "exec", e.id, "--", "true")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		w.Errorf("a second command: %v, %s", err, out)
	}
	w.OK(rt.Destroy(w.Ctx, e.id))
	w.nothing(rt)
}

// judgeGitGone checks that the end of the sandbox leaves nothing of wolffia's in the codebase, and no half of a repository.
func judgeGitGone(w *world, r *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	states := w.settled(rt) // List removes what is of no use
	delete(states, w.bystander)
	for id := range states {
		if err := rt.Destroy(w.Ctx, id); !errors.Is(err, runtime.ErrNotFound) { // one of run removes itself
			w.OK(err)
		}
	}
	w.T = suite.New(w.TB)
	if left := w.host("ls -d .wolffia-new-* 2>/dev/null; true"); left != "" {
		w.Errorf("left: %s", left)
	}
	if e.id != "" && r.at.name == "git: moved away" {
		w.host("git -C old fsck --strict")
	}
	w.host("for d in old sub; do [ ! -e $d/.git ] || git -C $d fsck --strict; done")
	w.nothing(rt)
}
