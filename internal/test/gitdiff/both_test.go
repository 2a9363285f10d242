package gitdiff

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// Sides of a turn.
const (
	onHost = iota
	inside
	second // another sandbox over the same codebase
)

// A turn is what one side does: a script of sh -eu in the repository, which prints want. says is an expression for a line of
// wolffia's; "" is that it says nothing.
type turn struct {
	side         int
	script, want string
	says         string
}

// A row is work of both sides in one repository, which its setup makes of base.
type row struct {
	name, setup string
	turns       []turn
}

// base is the repository of a row.
const base = `git init -q -b main repo; cd repo; mkdir src; for f in a b c; do echo $f >src/$f; done; git add -A; commit 1 -m one; git tag v1
git checkout -q -b topic; echo t >src/t; git add -A; commit 2 -m topic; git checkout -q main; echo m >src/m; git add -A; commit 3 -m two`

// waits and goes are before and after what the sandbox does while nothing of the host's may come: an operation of its own.
const (
	waits = `: >.git/BISECT_LOG`
	goes  = `rm .git/BISECT_LOG`
	tops  = `git log -1 --format=%s; git status --porcelain`
)

// rows are those of the acceptance table that both sides have a part in. The names begin with its numbers.
var rows = []row{
	{"44, 45 push -u to a remote of the host", `git init -q --bare ../up.git; git remote add up "$PWD/../up.git"; git push -q up main`, []turn{
		{inside, `git config --get-regexp '^branch' || echo none; git remote add own https://example.invalid/x.git; git update-ref refs/remotes/own/main HEAD; git checkout -q -b fix; git commit -q --allow-empty -m fix; git update-ref refs/remotes/up/fix HEAD; git branch -q -u up/fix`, "none", ""},
		{onHost, `git status -sb; git config branch.fix.merge; git branch -r`, "## fix...up/fix\nrefs/heads/fix\n  up/fix\n  up/main", ""},
	}},
	{"47 a merge half done", "", []turn{
		{inside, `echo x >src/t; git add -A; git commit -qm x; git merge -q topic || git status --porcelain`, "Auto-merging src/t\nCONFLICT (add/add): Merge conflict in src/t\nAutomatic merge failed; fix conflicts and then commit the result.\nAA src/t", ""},
		{onHost, `git log -1 --format=%s; git status --porcelain`, "x\n M src/t", ""},
		{inside, `echo both >src/t; git add -A; git commit -qm merged; ` + tops, "merged", ""},
		{onHost, tops, "merged", ""},
	}},
	{"48 the user commits", "", []turn{
		{inside, tops, "two", ""},
		{onHost, `echo x >>src/a; git commit -qam x; git tag v2`, "", ""},
		{inside, tops + `; git tag`, "x\nv1\nv2", ""},
	}},
	{"49 the user switches, detaches, deletes, resets, stages", "", []turn{
		{inside, tops, "two", ""},
		{onHost, `git checkout -q topic; echo x >>src/a; git add src/a; git mv src/b src/e`, "", ""},
		{inside, `git symbolic-ref HEAD; ` + tops, "refs/heads/topic\ntopic\nM  src/a\nR  src/b -> src/e", ""},
		{onHost, `git reset -q --hard; git checkout -q --detach v1; git branch -qD topic`, "", ""},
		{inside, `git rev-parse --symbolic-full-name HEAD; git for-each-ref --format='%(refname)' refs/heads; ` + tops, "HEAD\nrefs/heads/main\none", ""},
		{onHost, `git checkout -q main; git reset -q --hard v1`, "", ""},
		{inside, `git symbolic-ref HEAD; ` + tops, "refs/heads/main\none", ""},
	}},
	{"50 other branches", "", []turn{
		{inside, waits, "", ""},
		{onHost, `git commit -q --allow-empty -m user`, "", ""},
		{inside, `git update-ref refs/heads/topic $(git commit-tree -p topic -m agent topic^{tree}); ` + goes, "", ""},
		{inside, tops + `; git log -1 --format=%s topic`, "user\nagent", ""},
		{onHost, tops + `; git log -1 --format=%s topic`, "user\nagent", ""},
	}},
	{"51 both commit", "", []turn{
		{inside, waits, "", ""},
		{onHost, `echo u >u; git add u; git commit -qm user`, "", ""},
		{inside, `echo a >a; git add a; git commit -qm agent; ` + goes, "", "main: both have changed it: the sandbox's commits are at wolffia/box/main"},
		{onHost, `git log -1 --format=%s; git log -1 --format=%s wolffia/box/main`, "user\nagent", ""},
		{inside, `git log -1 --format=%s; git log -1 --format=%s host/main; git stash -qu; git merge -q -m merged host/main; git stash drop -q`, "agent\nuser", ""},
		{onHost, tops + `; git branch`, "merged\n* main\n  topic", ""},
		{inside, tops, "merged", ""},
	}},
	{"52 the user merges what is aside", "", []turn{
		{inside, waits, "", ""},
		{onHost, `git commit -q --allow-empty -m user`, "", ""},
		{inside, `git commit -q --allow-empty -m agent; ` + goes, "", "both have changed it"},
		{onHost, `git merge -q -m merged wolffia/box/main`, "", ""},
		{inside, tops, "merged", ""},
		{onHost, `git branch`, "* main\n  topic", ""},
	}},
	{"53 the user commits during a rebase inside", "", []turn{
		{inside, `git checkout -q topic; git rebase -q -x false main || echo stopped`, "stopped", "HEAD stays: a rebase is in progress in the sandbox"},
		{onHost, `git symbolic-ref HEAD; git commit -q --allow-empty -m user`, "refs/heads/main", ""},
		{inside, `git rebase --abort; git checkout -q main; ` + tops, "user", ""},
		{onHost, tops, "user", ""},
	}},
	{"54 the agent stages, the user commits another file", "", []turn{
		{inside, `echo x >>src/a; git add src/a`, "", ""},
		{onHost, `git status --porcelain; echo y >>src/b; git commit -qm user -- src/b`, "M  src/a", ""},
		{inside, tops, "user\nM  src/a", ""},
	}},
	{"55 the user stages, the agent commits another file, and the file", "", []turn{
		{onHost, `echo x >>src/a; git add src/a`, "", ""},
		{inside, `echo y >>src/b; git commit -qm agent -- src/b; ` + tops, "agent\nM  src/a", ""},
		{onHost, tops, "agent\nM  src/a", ""},
		{inside, waits, "", ""},
		{onHost, `echo z >>src/c; git add src/c`, "", ""},
		{inside, `echo w >>src/c; git commit -qm same -- src/c; ` + goes, "", "the sandbox's commits are at wolffia/box/main"},
		{onHost, `git log -1 --format=%s; git reset -q -- src/c`, "agent", ""},
		{inside, `git log -1 --format=%s`, "same", ""},
		{onHost, tops, "same\nM  src/a", ""},
	}},
	{"56 the host merges", "", []turn{
		{inside, tops, "two", ""},
		{onHost, `echo x >src/t; git add -A; git commit -qm x; git merge -q topic >/dev/null || :`, "", ""},
		{inside, `git log -1 --format=%s; git commit -q --allow-empty -m agent`, "x", "a merge is in progress here: the sandbox's commits are at wolffia/box/main"},
		{onHost, `git merge --abort`, "", ""},
		{inside, `git log -1 --format=%s`, "agent", ""},
		{onHost, tops + `; git branch`, "agent\n* main\n  topic", ""},
	}},
	{"57 another working tree", `git worktree add -q ../../../beside57 topic`, []turn{
		{inside, `git update-ref refs/heads/topic $(git commit-tree -p topic -m agent topic^{tree})`, "", "topic: it is checked out in another working tree: the sandbox's commits are at wolffia/box/topic"},
		{onHost, `git -C ../../../beside57 log -1 --format=%s; git -C ../../../beside57 status --porcelain; git log -1 --format=%s wolffia/box/topic`, "topic\nagent", ""},
	}},
	{"58 the user deletes the branch that the agent commits to", "", []turn{
		{inside, waits + `; git checkout -q topic`, "", "HEAD stays"},
		{onHost, `git branch -qD topic`, "", ""},
		{inside, `git commit -q --allow-empty -m agent; git checkout -q main; ` + goes, "", "topic: .*the sandbox's commits are at wolffia/box/topic"},
		{onHost, `git branch; git log -1 --format=%s wolffia/box/topic`, "* main\n  wolffia/box/topic\nagent", ""},
	}},
	{"59 both switch", "", []turn{
		{inside, waits, "", ""},
		{onHost, `git checkout -q -b mine`, "", ""},
		{inside, `git checkout -q -b own; ` + goes, "", "HEAD stays: both have switched, the host to mine, the sandbox to own"},
		{onHost, `git symbolic-ref HEAD; git status --porcelain`, "refs/heads/mine", ""},
		{inside, `git symbolic-ref HEAD; git status --porcelain`, "refs/heads/own", "both have switched"},
	}},
	{"60 two sandboxes", "", []turn{
		{inside, `git branch one; ` + waits, "", ""},
		{second, `git commit -q --allow-empty -m second; git branch two`, "", ""},
		{inside, `git commit -q --allow-empty -m first; ` + goes, "", "both have changed it: the sandbox's commits are at wolffia/box/main"},
		{second, tops + `; git branch`, "second\n* main\n  one\n  topic\n  two\n  wolffia/box/main", ""},
		{inside, `git rebase -q host/main; git log -2 --format=%s; git branch`, "first\nsecond\n* main\n  one\n  topic\n  two", ""},
		{onHost, tops + `; git branch`, "first\n* main\n  one\n  topic\n  two", ""},
		{second, tops, "first", ""},
	}},
	{"62 nothing of the host is executed", `for h in pre-commit post-checkout post-merge reference-transaction post-index-change pre-receive update post-receive; do printf '#!/bin/sh\n[ -z "$RAN" ] || exit 0; echo %s >>../ran\n' $h >.git/hooks/$h; chmod +x .git/hooks/$h; done; git config filter.x.smudge 'echo smudge >>../ran; cat'; git config filter.x.clean 'echo clean >>../ran; cat'; printf '#!/bin/sh\necho monitor >>../ran\n' >.git/monitor; chmod +x .git/monitor; git config core.fsmonitor "$PWD/.git/monitor"; echo '* filter=x' >.git/info/attributes; rm -f ../ran`, []turn{
		{inside, `export RAN=1; git -c filter.x.clean= -c filter.x.smudge= -c core.fsmonitor=false commit -q --allow-empty -m agent; git -c filter.x.clean= -c filter.x.smudge= -c core.fsmonitor=false checkout -q topic`, "", ""},
		{onHost, `[ ! -e ../ran ] || cat ../ran; git -c core.hooksPath=/dev/null -c core.fsmonitor=false log -1 --format=%s main`, "agent", ""},
	}},
	{"64 hooks", "", []turn{
		{inside, `printf '#!/bin/sh\necho hooked\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.hooksPath .git/hooks; git commit -q --allow-empty -m x 2>&1`, "hooked", ""},
		{onHost, `ls .git/hooks | grep -v sample || :; git config core.hooksPath || :; ` + tops, "x", ""},
	}},
	{"65 submodules", `git init -q ../lib; git -C ../lib commit -q --allow-empty -m lib`, []turn{
		{inside, `git -c protocol.file.allow=always submodule --quiet add ../lib sub; git commit -qm sub; git -C sub commit -q --allow-empty -m in; git commit -qam bump; git submodule status | cut -c1,42-`, "  sub (heads/master)", `the remote ".*" is left out`},
		{onHost, `git -C sub log -1 --format=%s; git status --porcelain; git submodule status | cut -c1,42-`, "in\n  sub (heads/master)", ""},
		{inside, `git submodule --quiet deinit -f sub; git rm -q sub; git commit -qm gone; ls`, "src", ""},
		{onHost, `ls; ` + tops, "src\ngone", ""},
	}},
	{"66 working trees", "", []turn{
		{inside, `git worktree add -q wt topic; git -C wt commit -q --allow-empty -m wt; git worktree add -q --detach /tmp/wt66`, "", ""},
		{onHost, `git -C wt log -1 --format=%s; git -C wt status --porcelain; git worktree list | wc -l`, "wt\n2", ""},
		{inside, `git worktree remove wt; git worktree list | wc -l`, "2", ""},
		{onHost, `git worktree list | wc -l; git log -1 --format=%s topic`, "1\nwt", ""},
	}},
	{"68 init and clone", "", []turn{
		{inside, `git init -q sub; git -C sub commit -q --allow-empty -m x; git clone -q . copy`, "", `the remote ".*" is left out`},
		{onHost, `git status --porcelain; git -C sub log --format=%s; git -C copy log -1 --format=%s; git -C copy status --porcelain`, "?? copy/\n?? sub/\nx\ntwo", ""},
	}},
}

// Both sides work with git, and have what the acceptance table says.
func TestBothSides(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	bothSides(t, "bwrap", rows)
}

func TestBothSidesInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	var some []row
	for i, r := range rows {
		if testenv.Picked(i, 3) {
			some = append(some, r)
		}
	}
	bothSides(t, "gvisor", some)
}

func bothSides(t *testing.T, backend string, rows []row) {
	t.Parallel()
	testenv.Unprivileged(t)
	testenv.Tools(t, "git")
	h := newHost(t)
	wolffia := filepath.Join(testbin.Dir(t), "wolffia")
	top := filepath.Join(h.home, "top")
	for i, r := range rows {
		dir := filepath.Join(top, dirOf(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		h.says(t, dir, "sh", "-eu", "-c", Head+base+"\n"+r.setup)
	}
	for _, name := range []string{"box", "two"} {
		h.says(t, top, wolffia, "create", "--runtime", backend, "--name", name)
		t.Cleanup(func() { h.says(t, top, wolffia, "rm", "-f", name) })
	}
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			place := filepath.Join(dirOf(i), "repo")
			for n, turn := range r.turns {
				ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
				defer cancel()
				cmd := h.command(ctx, filepath.Join(top, place), "sh", "-euc", turn.script)
				if turn.side != onHost {
					box := map[int]string{inside: "box", second: "two"}[turn.side]
					cmd = h.command(ctx, top, wolffia, "exec", "--cwd", place, box, "--", "sh", "-euc", turn.script)
				}
				var out, said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &said
				err := cmd.Run()
				lines := ownLines(said.String(), "wolffia: in "+place)
				switch {
				case err != nil:
					t.Fatalf("turn %d: %v\n%s%s", n, err, out.String(), said.String())
				case strings.TrimSpace(out.String()) != turn.want && strings.TrimSuffix(out.String(), "\n") != turn.want:
					t.Errorf("turn %d: it prints %q, want %q; wolffia says %q", n, out.String(), turn.want, lines)
				case turn.says == "" && lines != "" || !regexp.MustCompile(turn.says).MatchString(lines):
					t.Errorf("turn %d: wolffia says %q, want %q", n, lines, turn.says)
				}
			}
			for _, side := range []string{"", "box"} {
				fsck := []string{"git", "fsck", "--strict", "--no-dangling"}
				if side != "" {
					fsck = append([]string{wolffia, "exec", "--cwd", place, side, "--"}, fsck...)
				}
				_ = h.says(t, map[bool]string{true: filepath.Join(top, place), false: top}[side == ""], fsck[0], fsck[1:]...)
			}
		})
	}
}

// ownLines returns the lines of text that begin with prefix.
func ownLines(text, prefix string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), prefix))
		}
	}
	return strings.Join(lines, "\n")
}
