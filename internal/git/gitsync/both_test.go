package gitsync

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/testenv"
)

// commitTo is a script that puts a commit on a branch that is not checked out.
func commitTo(branch string) string {
	return fmt.Sprintf("git update-ref refs/heads/%[1]s $(git commit-tree -p %[1]s -m s %[1]s^{tree})", branch)
}

const (
	agentCommits = "git commit -q --allow-empty -m s"
	userCommits  = "git commit -q --allow-empty -m u"
)

// boths are what both sides do. The names begin with the row of the acceptance table, if it has
// one.
var boths = []struct {
	name  string
	boxes int
	do    func(w *world)
}{
	{"48 the user commits", 1, func(w *world) {
		w.host("echo u >>src/a; git commit -qam u")
		w.sync()
		w.follows("main")
		w.clean()
	}},
	{"49 the user switches", 1, func(w *world) {
		w.host("git switch -q topic")
		w.sync()
		w.equal(w.in("git symbolic-ref HEAD"), "refs/heads/topic")
		w.clean()
	}},
	{"49 the user stages", 1, func(w *world) {
		w.host("echo u >>src/a; git add src/a")
		w.sync()
		w.equal(w.in("git status --porcelain"), "M  src/a")
		w.must("git commit -qm agent")
		w.sync()
		w.clean()
		w.follows("main")
	}},
	{"49 the user stages and unstages", 1, func(w *world) {
		w.host("echo u >u; git add u")
		w.sync()
		w.equal(w.in("git status --porcelain"), "A  u")
		w.must("echo x >>src/a; git commit -qm x src/a")
		w.sync()
		w.equal(w.host("git status --porcelain"), "A  u")
		w.host("git reset -q")
		w.sync()
		w.equal(w.host("git status --porcelain"), "?? u")
		w.equal(w.in("git status --porcelain"), "?? u")
	}},
	{"49 the agent unstages", 1, func(w *world) {
		w.host("echo u >>src/a; git add src/a")
		w.sync()
		w.must("git reset -q")
		w.sync()
		w.equal(w.host("git status --porcelain"), "M src/a")
		w.must("git add src/a src/b; git rm -q --cached src/c")
		w.sync()
		w.equal(w.host("git diff --cached --name-status"), "M\tsrc/a\nD\tsrc/c")
		w.must("git reset -q; git stash -q; git checkout -q topic")
		w.sync()
		w.equal(w.host("git status -sb"), "## topic")
	}},
	{"49 the user detaches and deletes", 1, func(w *world) {
		w.host("git checkout -q v1; git branch -f topic main; git branch -D main; git tag -d v1")
		w.sync()
		w.equal(w.in(lookScript), w.try(lookScript))
		w.clean()
	}},
	{"49 the user rewrites", 1, func(w *world) {
		w.host("git reset -q --hard HEAD~1; git commit -q --amend -m other")
		w.sync()
		w.follows("main")
		w.clean()
	}},
	{"50 other branches", 1, func(w *world) {
		w.must("git branch mine; " + commitTo("topic"))
		w.host("git branch yours; " + userCommits)
		w.sync()
		w.follows("mine", "yours", "topic", "main")
	}},
	{"51 both commit", 1, func(w *world) {
		w.must("echo s >>src/b; git add src/b; git commit -qm s")
		w.host("echo u >>src/a; git add src/a; git commit -qm u -- src/a")
		w.sync()
		w.says("main: both have changed it: the sandbox's commits are at wolffia/box/main (git merge wolffia/box/main)")
		w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
		w.equal(w.rev("main"), w.revIn("refs/remotes/host/main"))
		w.in("git stash -q; git merge -q --no-edit host/main; git stash drop -q")
		w.in("git reset -q --hard")
		w.sync()
		w.follows("main")
		w.equal(w.rev("wolffia/box/main"), "")
		w.equal(w.revIn("refs/remotes/host/main"), "")
		w.clean()
	}},
	{"52 the user merges what is aside", 1, func(w *world) {
		w.must(agentCommits)
		w.host(userCommits)
		w.sync()
		one := w.rev("wolffia/box/main")
		w.must("git commit -q --allow-empty -m s2")
		w.sync()
		w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
		if one == w.rev("wolffia/box/main") {
			w.t.Error("the branch aside has not moved")
		}
		w.host("git merge -q --no-edit wolffia/box/main")
		w.sync()
		w.follows("main")
		w.equal(w.rev("wolffia/box/main"), "")
	}},
	{"the user moves what is aside", 1, func(w *world) {
		w.must(agentCommits)
		w.host(userCommits)
		w.sync()
		w.host("git branch -f wolffia/box/main main")
		w.must("git commit -q --allow-empty -m s2")
		w.sync()
		w.equal(w.rev("wolffia/box/main"), w.rev("main"))
		if all := w.host("git for-each-ref --format='%(objectname)' refs/heads/wolffia"); !strings.Contains(all, w.revIn("main")) {
			w.t.Errorf("the sandbox's commits are at none of %s", all)
		}
	}},
	{"47 a rebase half done", 1, func(w *world) {
		w.in("echo x >src/t; git add -A; git commit -qm x; git checkout -q topic; git rebase -q main")
		w.sync()
		w.says("HEAD stays: a rebase is in progress in the sandbox: wolffia shell box to go on, wolffia rm -f box to end it")
		w.equal(w.host("git symbolic-ref HEAD"), "refs/heads/main")
		if w.last.Pending == "" {
			w.t.Error("nothing is pending")
		}
		w.must("git rebase --abort")
		w.sync()
		w.equal(w.host("git symbolic-ref HEAD"), "refs/heads/topic")
		w.equal(w.last.Pending, "")
		w.clean()
	}},
	{"47 a merge half done", 1, func(w *world) {
		w.in("echo x >src/t; git add -A; git commit -qm x; git merge -q topic")
		w.sync()
		if b, err := os.ReadFile(filepath.Join(w.repo, "src/t")); err != nil || !strings.Contains(string(b), "<<<<<<<") {
			w.t.Errorf("src/t has %q, %v", b, err)
		}
		w.equal(w.host("git status --porcelain"), "M src/t")
		w.follows("main")
		w.must("echo both >src/t; git add -A; git commit -qm m")
		w.sync()
		w.clean()
		w.follows("main")
	}},
	{"53 the user commits during a merge", 1, func(w *world) {
		w.must("echo x >src/t; git add -A; git commit -qm x")
		w.sync()
		w.in("git merge -q topic")
		w.host("echo u >>src/b; git commit -qm u src/b")
		w.sync()
		w.says("a merge is in progress")
		if w.rev("main") == w.revIn("main") {
			w.t.Error("main has moved inside")
		}
		w.must("git merge --abort")
		w.sync()
		w.follows("main")
	}},
	{"54 the agent stages, the user commits another file", 1, func(w *world) {
		w.must("echo x >>src/a; git add src/a")
		w.host("echo u >>src/b; git commit -qm u src/b")
		w.sync()
		w.follows("main")
		w.equal(w.in("git status --porcelain src/a"), "M  src/a")
	}},
	{"54 the agent stages, the user commits the file", 1, func(w *world) {
		w.must("echo x >>src/a; git add src/a")
		w.host("echo u >>src/a; git commit -qm u src/a")
		w.sync()
		w.says("inside files are staged")
		w.equal(w.revIn("refs/remotes/host/main"), w.rev("main"))
		w.must("git reset -q")
		w.sync()
		w.follows("main")
		w.clean()
	}},
	{"55 the user stages, the agent commits another file", 1, func(w *world) {
		w.host("echo u >>src/b; git add src/b")
		w.must("echo x >>src/a; git commit -qm x src/a")
		w.sync()
		w.equal(w.host("git status --porcelain"), "M  src/b")
		w.follows("main")
	}},
	{"55 the user stages, the agent commits the file", 1, func(w *world) {
		w.host("echo u >>src/a; git add src/a")
		w.must("echo x >>src/a; git add src/a; git commit -qm x")
		w.sync()
		w.says("main: the index has changes of yours in the same files (src/a): the sandbox's commits are at wolffia/box/main")
		w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
		w.equal(w.host("git status --porcelain"), "MM src/a")
		w.host("git reset -q")
		w.sync()
		w.follows("main")
		w.equal(w.rev("wolffia/box/main"), "")
		w.clean()
	}},
	{"56 the host merges", 1, func(w *world) {
		w.try("echo x >src/t; git add -A; git commit -qm x; git merge -q topic")
		before := w.rev("main")
		w.sync()
		w.must(agentCommits)
		w.sync()
		w.says("a merge is in progress here")
		w.equal(w.rev("main"), before)
		w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
		w.host("git merge --abort")
		w.sync()
		w.follows("main")
	}},
	{"56 the host rebases", 1, func(w *world) {
		w.host("echo x >src/t; git add -A; git commit -qm x")
		w.sync()
		w.try("git checkout -q topic; git rebase -q main")
		w.must(commitTo("topic"))
		w.sync()
		w.says("a rebase of it is in progress here")
		w.equal(w.rev("wolffia/box/topic"), w.revIn("topic"))
	}},
	{"57 another working tree", 1, func(w *world) {
		w.host("git worktree add -q ../wt topic")
		w.must(commitTo("topic"))
		w.sync()
		w.says("topic: it is checked out in another working tree: the sandbox's commits are at wolffia/box/topic")
		w.equal(w.host("git -C ../wt status --porcelain"), "")
		w.equal(w.rev("wolffia/box/topic"), w.revIn("topic"))
	}},
	{"57 the agent switches to the branch of another working tree", 1, func(w *world) {
		w.host("git worktree add -q ../wt topic")
		w.must("git switch -q topic")
		w.sync()
		w.says("HEAD stays: topic: it is checked out in another working tree")
	}},
	{"58 the user deletes what the agent moves", 1, func(w *world) {
		w.host("git branch -D topic")
		w.must(commitTo("topic"))
		w.sync()
		w.says("deleted on the host meanwhile")
		w.equal(w.rev("wolffia/box/topic"), w.revIn("topic"))
		w.equal(w.rev("refs/heads/topic"), "")
	}},
	{"the agent deletes what the user moves", 1, func(w *world) {
		w.must("git branch -D topic")
		w.host(commitTo("topic"))
		w.sync()
		w.follows("topic")
	}},
	{"59 both switch", 1, func(w *world) {
		w.must("git switch -q topic")
		w.host("git branch x main; git symbolic-ref HEAD refs/heads/x")
		w.sync()
		w.says("HEAD stays: both have switched, the host to x, the sandbox to topic")
	}},
	{"60 two sandboxes", 2, func(w *world) {
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.syncAt(1)
		w.equal(w.at(1, "git rev-parse main"), w.rev("main"))
		w.equal(w.at(1, "git status --porcelain"), "")
		w.must("echo y >>src/b; git commit -qam y")
		w.at(1, "git checkout -qb two; git commit -q --allow-empty -m two; git checkout -q main")
		w.syncAt(1)
		w.sync()
		w.syncAt(1)
		w.equal(w.at(1, "git rev-parse main"), w.rev("main"))
		w.follows("two")
		w.must("git commit -q --allow-empty -m A")
		w.at(1, "git commit -q --allow-empty -m B")
		w.sync()
		w.syncAt(1)
		w.follows("main")
		w.equal(w.rev("wolffia/box1/main"), w.at(1, "git rev-parse main"))
		w.at(1, "git rebase -q host/main")
		w.syncAt(1)
		w.sync()
		w.follows("main")
		w.equal(w.rev("main"), w.at(1, "git rev-parse main"))
		w.equal(w.rev("wolffia/box1/main"), "")
	}},
	{"61 linked working tree as codebase", 1, func(w *world) {
		w.host("git worktree add -q ../wt topic")
		common := filepath.Join(w.repo, ".git")
		w.repo = filepath.Join(w.root, "wt")
		w.only("linked", filepath.Join(common, "worktrees/wt"))
		w.equal(w.in("git status -sb"), "## topic")
		w.must("echo x >>src/t; git commit -qm x src/t")
		w.sync()
		w.equal(w.said(), "")
		w.follows("topic")
		w.clean()
		w.host(userCommits)
		w.sync()
		w.follows("topic")
		w.must("git checkout -qb new")
		w.sync()
		w.equal(w.host("git symbolic-ref HEAD"), "refs/heads/new")
		w.clean()
		w.must("git update-ref refs/heads/main topic")
		w.sync()
		w.says("main: it is checked out in another working tree")
	}},
	{"62 nothing of the host is executed", 1, func(w *world) {
		ran := filepath.Join(w.root, "ran")
		w.host(`for x in reference-transaction post-checkout post-index-change pre-receive update post-receive post-update push-to-checkout post-rewrite pre-commit; do
printf '#!/bin/sh\necho $0 >>` + ran + `\n' >.git/hooks/$x; chmod +x .git/hooks/$x; done
printf '#!/bin/sh\necho monitor >>` + ran + `\n' >../mon; chmod +x ../mon; git config core.fsmonitor ../mon; git config core.untrackedCache true; git status
git config filter.f.clean 'echo c >>` + ran + `; cat'; git config filter.f.smudge 'echo s >>` + ran + `; cat'`)
		if !exists(ran) {
			w.t.Fatal("git alone has executed nothing: the test sees nothing")
		}
		w.host("rm " + ran)
		w.must("echo '* filter=f' >.gitattributes; echo x >>src/a; git add -A; git commit -qm x; git checkout -qb y; echo z >>src/b; git stash")
		_ = os.Remove(ran)
		w.sync()
		if b, err := os.ReadFile(ran); err == nil {
			w.t.Errorf("executed: %s", b)
		}
		w.equal(w.rev("y"), w.revIn("y"))
	}},
	{"index: intent to add", 1, func(w *world) {
		w.host("echo n >new; echo m >new2; git add -N new new2")
		w.must("echo x >>src/a; git commit -qm x src/a")
		w.sync()
		w.equal(w.host("git status --porcelain"), "A new\n A new2")
		w.follows("main")
	}},
	{"index: skip-worktree, assume-unchanged", 1, func(w *world) {
		w.host("git update-index --skip-worktree src/b; git update-index --assume-unchanged src/c; echo local >>src/b")
		w.must("echo x >>src/a; git commit -qm x src/a")
		w.sync()
		w.equal(w.host("git ls-files -v | grep -v ^H"), "S src/b\nh src/c")
		w.equal(w.host("git status --porcelain"), "")
	}},
	{"index: sparse", 1, func(w *world) {
		w.host("git sparse-checkout set --no-cone src")
		w.sync()
		w.equal(w.must("git status --porcelain"), "")
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.clean()
		w.follows("main")
		w.equal(w.host("git ls-files -t n"), "S n")
	}},
	{"index: sparse index", 1, func(w *world) {
		w.host("mkdir d; echo d >d/d; git add -A; git commit -qm d; git sparse-checkout set --cone --sparse-index src")
		w.sync()
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.clean()
		w.follows("main")
	}},
	{"index: split", 1, func(w *world) {
		w.host("git update-index --split-index; echo u >>src/b; git add src/b; git commit -qm u")
		w.sync()
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.clean()
		w.follows("main")
	}},
	{"index: untracked cache", 1, func(w *world) {
		w.host("git config core.untrackedCache true; git update-index --untracked-cache; git status; echo u >u")
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.equal(w.host("git status --porcelain"), "?? u")
	}},
	{"index: racy entries", 1, func(w *world) {
		// Times without fractions, as on file systems that have no finer ones: only the index's
		// own time tells.
		w.host("git config core.trustctime false; git config core.checkStat minimal")
		const touch = "touch -d '2026-01-01 00:00:00' "
		w.host("echo A1 >src/b; " + touch + "src/b; git add src/b; echo B1 >src/b; " + touch + "src/b .git/index")
		w.equal(w.host("git --no-optional-locks status --porcelain src/b"), "MM src/b")
		w.must(`export GIT_INDEX_FILE=$PWD/../x; git read-tree main; printf "100644 $(echo KK | git hash-object -w --stdin) 0\tsrc/w\n" | git update-index --index-info
git update-ref refs/heads/main $(git commit-tree -p main -m k $(git write-tree))`)
		w.sync()
		w.follows("main")
		w.equal(w.host("git --no-optional-locks status --porcelain src/b"), "MM src/b")
	}},
	{"names", 1, func(w *world) {
		for _, n := range slices.Concat(badNames, goodNames) {
			w.must("git update-ref " + quoteTest("refs/heads/"+n) + " v1")
		}
		w.must("git tag 't$(x)'")
		w.sync()
		w.says("fix$(id>pw): the name does not cross: it has the character '$', which a shell can act on: the sandbox's commits are at wolffia/box/fix--id-pw")
		all := strings.Fields(w.host("git for-each-ref --format='%(refname)' refs/heads"))
		for _, n := range goodNames {
			if !slices.Contains(all, "refs/heads/"+n) {
				w.t.Errorf("%s has not crossed", n)
			}
		}
		aside := 0
		for _, n := range badNames {
			if slices.Contains(all, "refs/heads/"+n) {
				w.t.Errorf("%s has crossed", n)
			}
		}
		for _, r := range all {
			if strings.HasPrefix(r, "refs/heads/wolffia/box/") {
				aside++
			}
		}
		if aside != len(badNames) {
			w.t.Errorf("%d branches are aside, want %d", aside, len(badNames))
		}
		w.equal(w.host("git tag"), "v1")
		if r := w.sync(); r.Moved {
			w.t.Errorf("a second sync moves: %+v", r)
		}
	}},
	{"HEAD with a bad name", 1, func(w *world) {
		w.must("git checkout -qb 'fix$(id)'; echo x >>src/a; git commit -qam x")
		w.sync()
		w.equal(w.host("git symbolic-ref HEAD"), "refs/heads/main")
		w.says("HEAD stays: the branch's name does not cross")
		w.equal(w.rev("wolffia/box/fix--id-"+w.host("git branch --list 'wolffia/box/fix--id-*' --format='%(refname:lstrip=-1)'")[len("fix--id-"):]), w.revIn("HEAD"))
	}},
	{"names of another kind", 1, func(w *world) {
		w.host("git update-ref refs/remotes/origin/main main")
		w.sync()
		w.must("git tag main v1; git tag HEAD v1; git branch origin/main v1")
		w.sync()
		w.equal(w.host("git tag"), "v1")
		w.equal(w.rev("refs/heads/origin/main"), "")
		w.says("refs/tags/main stays inside: the name does not cross: refs/heads/main has the same short name")
	}},
	{"a directory in the place of a file", 1, func(w *world) {
		w.must("git checkout -qb fix/login; " + agentCommits)
		w.host("git branch fix")
		w.sync()
		w.equal(w.rev("wolffia/box/fix/login"), w.revIn("fix/login"))
		w.host("git branch -D fix")
		w.sync()
		w.follows("fix/login")
		w.equal(w.host("git symbolic-ref HEAD"), "refs/heads/fix/login")
	}},
	{"a file becomes a directory", 1, func(w *world) {
		w.must("git branch -m topic topic/x; git branch topic/y")
		w.sync()
		w.follows("topic/x", "topic/y")
	}},
	{"44 remotes", 1, func(w *world) {
		w.host("git clone -q --bare . ../up.git; git remote add origin ../up.git; git fetch -q; git branch -q -u origin/main main")
		w.sync()
		w.follows("origin/main")
		w.equal(w.in("git config remote.origin.url"), "../up.git")
		w.must("git remote add evil ../up.git; " + agentCommits + "; git push -q origin main; git fetch -q evil; git update-ref -d refs/remotes/origin/topic")
		w.sync()
		w.equal(w.rev("origin/main"), w.revIn("main"))
		w.equal(w.rev("evil/main"), "")
		w.equal(w.rev("origin/topic"), w.rev("topic"))
		w.equal(w.host("git status -sb"), "## main...origin/main")
	}},
	{"45 push -u", 1, func(w *world) {
		const get = "git config --local --get-regexp '^branch' | sort"
		w.host("git clone -q --bare . ../up.git; git remote add origin ../up.git; git fetch -q")
		w.sync()
		w.must("git checkout -qb fix; git commit -q --allow-empty -m fix; git push -qu origin fix; git branch -qu origin/main main")
		w.sync()
		w.equal(w.host(get), "branch.fix.merge refs/heads/fix\nbranch.fix.remote origin\nbranch.main.merge refs/heads/main\nbranch.main.remote origin")
		w.equal(w.host("git status -sb"), "## fix...origin/fix")
		// What the user has set, or has taken away, stays.
		w.host("git branch -q --unset-upstream main; git branch -q -u fix topic")
		w.must("git branch -qu origin/main topic; git branch w1")
		w.sync()
		want := "branch.fix.merge refs/heads/fix\nbranch.fix.remote origin\nbranch.topic.merge refs/heads/fix\nbranch.topic.remote ."
		w.equal(w.host(get), want)
		// A remote, or a branch, that the host does not have, waits; what is not a branch's name
		// does not cross.
		w.must("git config branch.w1.remote mine; git config branch.w1.merge refs/heads/w1; git config branch.none.remote origin; git config branch.none.merge refs/heads/none")
		w.must(`git branch w2; git config branch.w2.remote origin; git config branch.w2.merge 'refs/heads/$(id)'; git branch w3; git config branch.w3.remote origin; git config branch.w3.merge refs/tags/v1`)
		w.must(`git branch w4; git config branch.w4.remote ../up.git; git config branch.w4.merge refs/heads/w4; git config branch.w4.rebase true; git config branch.w4.pushRemote origin`)
		w.sync()
		w.equal(w.host(get), want)
		w.host("git remote add mine https://example.invalid/x.git")
		w.sync()
		w.equal(w.host(get), want+"\nbranch.w1.merge refs/heads/w1\nbranch.w1.remote mine")
		if again := w.sync(); again.Moved {
			w.t.Errorf("a second sync says %+v", again)
		}
	}},
	{"stashes are a list", 1, func(w *world) {
		const list = "git stash list --format=%gs"
		w.host("echo u >>src/a; git stash push -qm user")
		w.sync()
		w.equal(w.in(list), "On main: user")
		w.must("echo s >>src/b; git stash push -qm agent")
		w.sync()
		w.equal(w.host(list), "On main: agent\nOn main: user")
		w.must("git stash drop -q stash@{1}")
		w.sync()
		w.equal(w.host(list), "On main: agent\nOn main: user")
		w.must("git stash drop -q")
		w.sync()
		w.equal(w.host(list), "On main: user")
		w.host("git stash pop -q")
		w.sync()
		w.equal(w.in("git stash list"), "")
		var rec record
		if have, err := w.boxes[0].pair.load(stateFile, &rec); err != nil || !have || len(rec.Ours) > 0 {
			w.t.Errorf("stashes that are gone are in the record: %q (%v)", rec.Ours, err)
		}
	}},
	{"configuration follows unless the sandbox has its own", 1, func(w *world) {
		w.host("git config x.y 1; echo pat >>.git/info/exclude; printf '#!/bin/sh\n' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push")
		w.sync()
		w.equal(w.in("git config x.y; tail -1 $GIT_DIR/info/exclude; [ ! -x $GIT_DIR/hooks/pre-push ] || echo x"), "1\npat\nx")
		w.must("git config x.z 2")
		w.host("git config x.y 3; rm .git/hooks/pre-push")
		w.sync()
		w.equal(w.in("git config x.y; git config x.z; ls $GIT_DIR/hooks/pre-push"), "1\n2")
	}},
	{"flags, replace and configuration stay inside", 1, func(w *world) {
		w.must(`git replace main v1; git update-index --assume-unchanged src/a; echo src/b >$GIT_DIR/info/exclude; git config core.fsmonitor 'touch pwned'
git config alias.st '!touch pwned'; git -c core.fsmonitor= commit -q --allow-empty -m s; ln -s config $GIT_DIR/X; mkdir $GIT_DIR/rebase-merge; echo '$(touch pwned)' >$GIT_DIR/rebase-merge/msgnum; rm -r $GIT_DIR/rebase-merge`)
		w.sync()
		w.equal(w.host("git replace; git ls-files -v | grep -v ^H; git config core.fsmonitor; grep -v ^# .git/info/exclude; ls pwned 2>/dev/null; true"), "")
		w.equal(w.rev("main"), w.revIn("main"))
	}},
	{"sha256", 1, func(w *world) {
		w.host("rm -rf .git; git init -q --object-format=sha256 -b main .; git add -A; git commit -qm c")
		w.only("sha", filepath.Join(w.repo, ".git"))
		w.must("echo x >>src/a; git commit -qam x; git tag -a -m t t; echo y >>src/a; git stash")
		w.sync()
		w.follows("main", "t")
		if len(w.rev("main")) != 64 {
			w.t.Error(w.rev("main"))
		}
		w.clean()
		w.host(userCommits)
		w.sync()
		w.clean()
		w.follows("main")
	}},
	{"empty repository", 1, func(w *world) {
		w.host("rm -rf .git; git init -q -b main .")
		w.only("empty", filepath.Join(w.repo, ".git"))
		if r := w.sync(); r.Moved {
			w.t.Errorf("sync: got r %+v; want not r.Moved", r)
		}
		w.must("git add src; git commit -qm c")
		w.sync()
		w.follows("main")
		w.equal(w.host("git status --porcelain"), "?? n")
		w.equal(w.in("git status --porcelain"), "?? n")
	}},
	{"empty repository, the user commits", 1, func(w *world) {
		w.host("rm -rf .git; git init -q -b main .")
		w.only("empty", filepath.Join(w.repo, ".git"))
		w.host("git add -A; git commit -qm c")
		w.sync()
		w.follows("main")
		w.clean()
	}},
	{"packed refs", 1, func(w *world) {
		w.host("git pack-refs --all")
		w.only("packed", filepath.Join(w.repo, ".git"))
		w.must("git branch -D topic; echo x >>src/a; git commit -qam x; git pack-refs --all")
		w.sync()
		w.follows("main")
		w.equal(w.rev("topic"), "")
		w.clean()
	}},
	{"shallow", 1, func(w *world) {
		w.host("git clone -q --bare . ../up.git; cd ..; git clone -q --depth 2 file://$PWD/up.git sh")
		w.repo = filepath.Join(w.root, "sh")
		w.only("shallow", filepath.Join(w.repo, ".git"))
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.follows("main")
		w.clean()
		w.equal(w.host("git fsck --no-dangling"), "")
	}},
	{"partial", 1, func(w *world) {
		w.host("git clone -q --bare . ../up.git; git -C ../up.git config uploadpack.allowFilter true; cd ..; git clone -q --filter=blob:none file://$PWD/up.git sh")
		w.repo = filepath.Join(w.root, "sh")
		w.only("partial", filepath.Join(w.repo, ".git"))
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.follows("main")
		w.clean()
	}},
	{"alternates on the host", 1, func(w *world) {
		w.host("cd ..; git clone -q -s repo al")
		w.repo = filepath.Join(w.root, "al")
		w.only("alternate", filepath.Join(w.repo, ".git"))
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.follows("main")
		w.clean()
	}},
	{"bare", 1, func(w *world) {
		w.host("git clone -q --bare . ../bare.git")
		w.only("bare", filepath.Join(w.root, "bare.git"))
		b := w.boxes[0]
		b.pair.Worktree, b.env = "", []string{"GIT_DIR=" + b.pair.Private}
		b.pair.Inside = plain{b.pair.Private, b.env}
		w.must(commitTo("main") + "; git symbolic-ref HEAD refs/heads/topic")
		w.sync()
		w.equal(w.said(), "")
		w.equal(w.host("git -C ../bare.git rev-parse main; git -C ../bare.git symbolic-ref HEAD"), w.revIn("main")+"\nrefs/heads/topic")
	}},
	{"46 LFS", 1, func(w *world) {
		testenv.Tools(w.t, "git-lfs")
		w.host("git lfs install --local; git lfs track '*.bin'; git add -A; git commit -qm lfs")
		w.sync()
		w.must("head -c 100000 /dev/urandom >x.bin; git add -A; git commit -qm big")
		w.must("d=$GIT_DIR/lfs/objects; mkdir -p $d/aa/aa $d/bb/bb; echo evil >$d/aa/aa/" + strings.Repeat("a", 64) + "; ln -s /etc/passwd $d/bb/bb/" + strings.Repeat("b", 64))
		w.sync()
		w.follows("main")
		w.clean()
		w.equal(w.host("git lfs fsck"), "Git LFS fsck OK")
		w.says("LFS object aaaaaaaaaaaa has another content: it stays inside")
		w.host("rm x.bin; git checkout x.bin")
		w.equal(w.host("wc -c <x.bin"), "100000")
		if exists(filepath.Join(w.repo, ".git/lfs/objects/bb/bb", strings.Repeat("b", 64))) {
			w.t.Error("a link has crossed")
		}
	}},
	{"gc on the host", 1, func(w *world) {
		w.must("echo x >>src/a; git commit -qam x")
		w.sync()
		w.host("git gc -q --prune=now; git pack-refs --all")
		w.sync()
		w.clean()
		w.equal(w.must("git fsck --no-dangling"), "")
		w.host("git branch -D topic; git reflog expire --expire=now --all; git gc -q --prune=now")
		w.sync()
		w.equal(w.revIn("topic"), "")
		w.clean()
	}},
	{"unchanged", 1, func(w *world) {
		waitTick()
		w.sync()
		if r, same := w.boxes[0].pair.Unchanged(); !same || r.Moved {
			w.t.Errorf("Unchanged: got r %+v, same %v; want same and not r.Moved", r, same)
		}
		w.must("git branch b")
		if _, same := w.boxes[0].pair.Unchanged(); same {
			w.t.Error("a new branch inside is not seen")
		}
		w.sync()
		w.sync()
		waitTick()
		w.sync()
		if _, same := w.boxes[0].pair.Unchanged(); !same {
			w.t.Error("nothing has changed")
		}
		w.host("git branch c")
		if _, same := w.boxes[0].pair.Unchanged(); same {
			w.t.Error("a new branch of the host is not seen")
		}
	}},
	{"git is running inside", 1, func(w *world) {
		lock := filepath.Join(w.boxes[0].pair.Private, "index.lock")
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			w.t.Fatal(err)
		}
		r, err := w.boxes[0].pair.Sync(w.t.Context())
		if !errors.Is(err, ErrBusy) || r.Pending == "" {
			w.t.Errorf(`Sync: got r %+v, err %v; want err is ErrBusy and r.Pending != ""`, r, err)
		}
		old := time.Now().Add(-2 * oldLock)
		if err := os.Chtimes(lock, old, old); err != nil {
			w.t.Fatal(err)
		}
		w.must("git branch b") // git was killed there
		w.sync()
		w.follows("b")
	}},
}

// waitTick returns when times of files are older than a tick.
func waitTick() { <-time.After(2 * tick) }

func quoteTest(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var (
	badNames = []string{
		"fix$(id>pw)", "a;b", "x`id`", "-x", "a/-y", "a'b", `a"b`, "a|b", "a&b", "a<b", "a(b)", "a{b}", "a!b", "a%b", strings.Repeat("f", 40), "HEAD",
		"MERGE_HEAD", "x\u202ey", "refs/heads/main", "heads/main", "wolffia/z", "=ls", strings.Repeat("x", 220),
	}
	goodNames = []string{"feature/JIRA-1_x.y", "fix/#12", "user@host/x", "größe", "日本語", "v1.2+b", "a,b", "a=b"}
)

func TestBoth(t *testing.T) {
	for _, b := range boths {
		t.Run(b.name, func(t *testing.T) { b.do(newWorld(t, b.boxes)) })
	}
}
