package gitdiff

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// own shows what of the host's git directories no command of git inside, and no attack, changes: all but objects, references, logs, the
// index and HEAD.
const own = `
all() {
	find . -name .git -prune -print0 | xargs -0 -I{} find {} '(' -path '*/objects' -o -path '*/refs' -o -path '*/logs' ')' -prune -o \
		! -type d ! -name index ! -name HEAD ! -name packed-refs "$@"
}
all -printf '%p %y%m %s:%l\n' | sort
all -type f -print0 | sort -z | xargs -0 -r sha1sum`

// A hostile is a sandbox's attack on git on the host: a script that works in a repository. $MARK is a file that a program on the host makes
// if it executes something of the sandbox's.
type hostile struct{ name, script string }

// program makes the program /tmp/x, which makes the mark.
const program = `printf '#!/bin/sh\nid >%s\n' "$MARK" >/tmp/x; chmod +x /tmp/x; cp /tmp/x x; `

var hostiles = []hostile{
	{"a configuration that executes", program + `for k in core.fsmonitor core.sshCommand core.pager core.editor diff.external gpg.program filter.x.clean filter.x.smudge alias.status alias.log core.askPass credential.helper sequence.editor merge.x.driver interactive.diffFilter uploadpack.packObjectsHook; do git config $k "$PWD/x"; done; git config core.hooksPath "$PWD"; cp x pre-commit; echo '* filter=x' >.gitattributes`},
	{"a configuration written in place", program + `printf '[core]\n\tfsmonitor = %s\n' "$PWD/x" >.git/config`},
	{"hooks", program + `mkdir -p .git/hooks; for h in pre-commit post-checkout post-merge pre-push reference-transaction post-index-change pre-receive update post-receive fsmonitor-watchman; do cp x .git/hooks/$h; done`},
	{"an index with names of the host's", `t=$(printf '100644 blob %s\tx\n' $(echo owned | git hash-object -w --stdin)); for p in .git/hooks/pre-commit ../x /tmp/x; do git update-index --index-info <<E || :
100644 $(echo owned | git hash-object -w --stdin) 0	$p
E
done; cp .git/index .git/sharedindex.1111111111111111111111111111111111111111`},
	{"links of one name", `for f in COMMIT_EDITMSG MERGE_MSG SQUASH_MSG TAG_EDITMSG FETCH_HEAD ORIG_HEAD; do ln -sf config .git/$f; done; ln -s objects .git/modules; ln -s refs .git/worktrees; ln -sf ../config .git/logs/HEAD`},
	{"the state of a rebase", program + `mkdir .git/rebase-merge .git/rebase-apply .git/sequencer; for f in msgnum end; do echo '$(/tmp/x)' >.git/rebase-merge/$f; done; echo "exec $PWD/x" >.git/rebase-merge/git-rebase-todo; echo '$(/tmp/x)' >.git/rebase-apply/next; echo "$PWD/x" >.git/BISECT_RUN`},
	{"alternates and grafts", `echo /etc >.git/objects/info/alternates; echo x >.git/info/grafts; echo x >.git/shallow; git replace HEAD HEAD~1 || :`},
	{"working trees and modules", program + `mkdir -p .git/worktrees/x .git/modules/x; echo /tmp/y/.git >.git/worktrees/x/gitdir; echo ../.. >.git/worktrees/x/commondir; echo 'ref: refs/heads/master' >.git/worktrees/x/HEAD; git init -q --bare m; mv m/* .git/modules/x/ 2>/dev/null || :; git config -f .git/modules/x/config core.fsmonitor "$PWD/x"`},
	{"a fifo", `rm -f .git/config; mkfifo .git/config .git/info/x; mkfifo .git/FETCH_HEAD || :`},
	{"names of branches that act", `h=$(git rev-parse HEAD); for n in 'a$(id>pwned)' 'b;id' '-x' 'c` + "`id`" + `'; do git update-ref "refs/heads/$n" $h 2>/dev/null || echo $h >".git/refs/heads/$n"; done`},
	{"a git directory beside", `git init -q --separate-git-dir="$PWD/y.git" y 2>/dev/null || :; git init -q --bare z 2>/dev/null || :; mkdir q; cd q; echo 'ref: refs/heads/x' >HEAD; mkdir refs objects 2>/dev/null || :; for n in .GIT .Git 'GIT~1' .git. ; do mkdir "$n" 2>/dev/null || :; done`},
	{"no git directory", `rm -rf .git; mkdir .git`},
}

// What a sandbox does to its git directories reaches none of the host's, and git on the host executes none of it.
func TestHostile(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	t.Parallel()
	testenv.Unprivileged(t)
	testenv.Tools(t, "git")
	h := newHost(t)
	wolffia := filepath.Join(testbin.Dir(t), "wolffia")
	top, mark := filepath.Join(h.home, "top"), filepath.Join(h.home, "mark")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	h.says(t, top, "sh", "-eu", "-c", "git init -q; git commit -q --allow-empty -m top; mkdir template; cd template\n"+Head+Setup)
	for i := range hostiles {
		h.says(t, top, "sh", "-eu", "-c", `mkdir $0; cp -a template/repo $0/repo`, dirOf(i))
	}
	before := h.says(t, top, "sh", "-c", own)
	box := strings.TrimSpace(lastLine(h.says(t, top, wolffia, "create")))
	t.Cleanup(func() { h.says(t, top, wolffia, "rm", "-f", box) })
	for i, a := range hostiles {
		t.Run(a.name, func(t *testing.T) {
			place := dirOf(i) + "/repo"
			_, _ = h.command(t.Context(), top, wolffia, "exec", "-e", "MARK="+mark, "--cwd", place, box, "--", "sh", "-c", a.script).CombinedOutput()
			_, _ = h.command(t.Context(), top, wolffia, "exec", "--cwd", place, box, "--", "true").CombinedOutput()
			for _, line := range spoiled(before, h.says(t, top, "sh", "-c", own)) {
				t.Errorf("the host's git directories: %s", line)
			}
			said := h.says(t, filepath.Join(top, place), "sh", "-c", `exec 2>&1 </dev/null; git status; git diff; git stash; git stash pop; git checkout .; git add -A; git commit -qm work; git log -1
git checkout -q -b other; git merge -q topic; git gc -q; git fetch --all; git worktree prune; git worktree repair; git submodule update; git rebase --continue; git bisect log; git fsck; for d in y z q; do [ ! -d $d ] || git -C $d status; done; true`)
			if text, err := os.ReadFile(mark); err == nil {
				t.Errorf("git on the host has executed %s:\n%s", text, said)
			}
			_ = os.Remove(mark)
		})
		before = h.says(t, top, "sh", "-c", own) // git on the host makes files of its own
	}
}

// spoiled returns the lines of own that differ, but for git directories, working trees and modules that are new: wolffia has made
// these.
func spoiled(before, after string) (lines []string) {
	was, is := setOf(before), setOf(after)
	for line := range was {
		if !is[line] {
			lines = append(lines, "- "+line)
		}
	}
	for line := range is {
		at, below, _ := strings.Cut(line, "/.git/")
		at = at[strings.LastIndexByte(at, ' ')+1:]
		old := strings.Contains(before, at+"/.git/")
		if !was[line] && old && !strings.HasPrefix(below, "worktrees/") && !strings.HasPrefix(below, "modules/") {
			lines = append(lines, "+ "+line)
		}
	}
	slices.Sort(lines)
	return lines
}

func setOf(text string) map[string]bool {
	lines := make(map[string]bool)
	for line := range strings.SplitSeq(text, "\n") {
		lines[line] = true
	}
	return lines
}

func dirOf(i int) string { return "a" + string(rune('a'+i)) }
