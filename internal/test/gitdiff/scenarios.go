// Package gitdiff is the table of git commands that are tried with wolffia, then without.
package gitdiff

// A Scenario is work with git, as a script of sh -eu. It starts in the directory repo, a
// repository with the commits of [Setup]. The function at sets the time.
type Scenario struct {
	Name, Script string

	// Hidden is a line that git prints only without wolffia; docs/git.md has the reason.
	Hidden string

	// Refused are texts that git and wolffia print inside, in this order, when the script fails
	// there. Then the files Reveal, from the directory of repo, are revealed by the flag that
	// wolffia has named, and the script Again, if there is one, else Script, works.
	Refused, Reveal []string
	Again           string

	// Differs is set if the host has something else, which docs/git.md names: no remotes that are paths, no flags of an index.
	Differs bool
	Often   bool // in each run of the tests
}

// Head defines what setup and scenarios use. The identity is the user's own, and the dates
// are given, so that equal work makes equal commits.
const Head = `
at() { GIT_AUTHOR_DATE="$((1700000000 + $1)) +0100" GIT_COMMITTER_DATE="$((1700000000 + $1)) +0100"; export GIT_AUTHOR_DATE GIT_COMMITTER_DATE; }
commit() { at "$1"; shift; git commit -q "$@"; }
unset EDITOR VISUAL GIT_EDITOR
export EDITOR=true
`

// Setup makes the repositories repo, tracked and lib in the current directory. The first has
// a file that the rules of a sandbox hide, untracked, the second such files that are tracked.
const Setup = `
git init -q repo
cd repo
mkdir -p src docs .github/workflows
seq 1 20 >src/a.txt; echo b >src/b.txt; echo '#!/bin/sh' >run.sh; chmod +x run.sh; ln -s src/a.txt link
echo 'on: push' >.github/workflows/ci.yml; printf "*.o\n.env.local\n" >.gitignore
printf 'x\000y' >blob.bin; : >docs/empty; echo 'ü' >'docs/ü "q".txt'
git add -A; commit 1 -m first
git tag v1
echo c >src/c.txt; git add -A; commit 2 -m second
git checkout -q -b topic HEAD~1
echo topic >src/t.txt; git add -A; commit 3 -m t1
seq 2 20 >src/a.txt; commit 4 -am t2
git checkout -q -
echo SECRET=1 >.env.local
cd ..
cp -a repo tracked
cd tracked
echo TOKEN=1 >.env; echo key >server.key; git add -f .; git reset -q .env.local; commit 4 -m secrets
git checkout -q topic; git merge -q --no-edit master; git checkout -q master
cd ..
git init -q lib
cd lib
echo lib >lib.txt; git add -A; commit 5 -m lib
`

// Scenarios are the table.
var Scenarios = []Scenario{
	{Name: "Status", Script: `git status --porcelain; git diff --stat; git log --oneline --graph --all; git blame src/a.txt | head -3; git show --stat HEAD; git describe --tags; git shortlog -s HEAD; git grep -n c`},
	{Name: "Init", Differs: true, Often: true, Script: `git init -q new; cd new; echo a >a; git add .; commit 10 -m a; cd ..; git clone -q new copy; git -C copy log --oneline; git clone -q --bare new .git/bare; git -C .git/bare log --oneline`},
	{Name: "InitAgain", Often: true, Script: `git init; git init -q; git config --list --local; git status --porcelain`},
	{Name: "Commit", Script: `echo n >n; git add n; commit 10 -m n; git commit -q --allow-empty -m empty; git commit -q --allow-empty -F - <<E
from a file

with a body
E`},
	{Name: "CommitAll", Script: `echo more >>src/a.txt; commit 10 -am all; git add -A; git status --porcelain; git diff --cached --quiet || commit 11 -m rest`},
	{Name: "TrackedSecrets", Script: `cd ../tracked; echo x >>src/b.txt; commit 10 -am x; echo TOKEN=2 >.env; chmod 600 .env; echo changed >server.key; git status --porcelain; commit 11 -am secrets; git show --stat`},
	{Name: "TrackedSecretsMove", Script: `cd ../tracked; echo TOKEN=2 >.env; git stash -q; git stash pop -q; commit 10 -am token; git checkout -q topic; at 11; git rebase -q master; git reset -q --hard master; git commit -q --amend -m amended; git log --oneline`},
	{Name: "CommitPart", Often: true, Script: `echo x >>src/b.txt; echo y >>src/c.txt; at 10; yes | git commit -q -p -m patch src/b.txt; at 11; GIT_EDITOR='git add src/c.txt; echo editor >' git commit -qa; git log --oneline; git status --porcelain`},
	{Name: "CommitAbort", Script: `echo x >>src/b.txt; git add -A .; git commit || git status --porcelain`},
	{Name: "Amend", Script: `echo x >>src/b.txt; at 10; git commit -q -a --amend --no-edit; at 11; git commit -q --amend -m renamed --author 'A <a@x>'; git commit --amend`},
	{Name: "PathsAndModes", Script: `chmod +x src/b.txt; ln -sf src/c.txt link; git mv src/c.txt src/d.txt; git rm -q docs/empty; mkdir -p deep/er; echo d >deep/er/f; git add -A; commit 10 -m paths; git mv deep moved; commit 11 -m moved`},
	{Name: "Stash", Script: `echo x >>src/b.txt; echo u >untracked; at 10; git stash push -q -u -m mine; git stash list; git status --porcelain; git stash pop -q; git status --porcelain; git stash -q; git stash apply -q; git stash drop -q`},
	{Name: "StashConflict", Often: true, Script: `echo x >src/b.txt; at 10; git stash -q; echo y >src/b.txt; commit 11 -am y; git stash pop || git status --porcelain; git checkout -q --theirs src/b.txt; git add src/b.txt; git stash drop -q`},
	{Name: "Checkout", Script: `git checkout -q topic; ls src; git checkout -q -; git checkout -q v1; git checkout -q -b from-v1; git switch -q topic; git restore --source v1 src/a.txt; git checkout -q -f; git switch -q --detach HEAD~1; git switch -q -; git checkout v1 -- src/a.txt; git status --porcelain`},
	{Name: "Branch", Script: `git branch a; git branch -m a b; git branch -c b c; git branch -f c v1; git branch -D b; git branch --list -v; EDITOR='echo described >' git branch --edit-description c; git symbolic-ref HEAD; git update-ref refs/x/y HEAD; git pack-refs --all; git branch after`},
	{Name: "BranchHooks", Differs: true, Often: true, Script: `git checkout -q -b feature/hooks/x; echo x >x; git add x; commit 10 -m x; git tag hooks/v1; git worktree add -q hooks -b hooks/y; cd hooks; echo y >y; git add y; commit 11 -m y; cd ..; git clone -q . ../copy; git -C ../copy branch -r; git -C ../copy fetch -q origin hooks/y:hooks/z`},
	{Name: "Reset", Script: `git reset -q --soft HEAD~1; commit 10 -m again; git reset -q HEAD~1; git add -A; git status --porcelain; git reset -q --hard topic; git reset -q --keep v1; git reset -q --hard ORIG_HEAD; git reflog | cat`},
	{Name: "MergeFastForward", Script: `git checkout -q -b ff v1; git merge -q topic; git log --oneline`},
	{Name: "MergeTrue", Script: `at 10; git merge -q --no-edit topic; git log --oneline --graph; at 11; git merge topic`},
	{Name: "MergeEditor", Script: `at 10; git merge -q topic; git log -1`},
	{Name: "MergeSquash", Script: `git merge -q --squash topic; commit 10 -m squashed; git log --oneline`},
	{Name: "MergeConflict", Script: `echo mine >>src/t.txt; git add -A; commit 10 -m mine; git merge -q topic || git status --porcelain; git ls-files -u; echo both >src/t.txt; git add src/t.txt; at 11; git merge --continue; git log --graph --oneline`},
	{Name: "MergeAbort", Script: `echo mine >src/t.txt; git add -A; commit 10 -m mine; git merge -q topic || git merge --abort; git status --porcelain`},
	{Name: "MergeOctopus", Script: `git branch o1 v1; git checkout -q o1; echo o >o; git add o; commit 10 -m o; git checkout -q -; at 11; git merge -q -m octopus o1 topic; git log --graph --oneline`},
	{Name: "Rebase", Script: `git checkout -q topic; at 10; git rebase -q -; git log --oneline`},
	{Name: "RebaseOnto", Script: `git checkout -q topic; at 10; git rebase -q --onto master topic~1; git log --oneline`},
	{Name: "RebaseConflict", Script: `echo x >src/t.txt; git add -A; commit 10 -m x; git checkout -q topic; at 11; git rebase -q - || git status --porcelain; echo both >src/t.txt; git add -A; at 12; git rebase --continue; git log --oneline`},
	{Name: "RebaseSkipAbort", Script: `echo x >src/t.txt; git add -A; commit 10 -m x; git checkout -q topic; at 11; git rebase -q - || git rebase --abort; git log --oneline; git rebase -q master || git rebase --skip; git log --oneline`},
	{Name: "RebaseInteractive", Often: true, Script: `git checkout -q topic; echo 3 >three; git add -A; commit 10 -m t3; at 11
GIT_SEQUENCE_EDITOR="sed -i -e '2s/pick/squash/' -e '3s/pick/reword/'" git rebase -q -i v1; git log
git -c sequence.editor="sed -i 1d" rebase -q -i v1; git log --oneline`},
	{Name: "RebaseEditor", Often: true, Script: `git checkout -q topic; at 10; GIT_EDITOR='f() { text=$(sed 1d "$1"); echo "$text" >"$1"; }; f' git rebase -q -i v1; git log --oneline; at 11; EDITOR=false git rebase -q -i v1 2>/dev/null || git status --porcelain`},
	{Name: "RebaseAutosquash", Script: `git checkout -q topic; echo f >>src/t.txt; git add -A; commit 10 --fixup HEAD~1; at 11; GIT_SEQUENCE_EDITOR=: git rebase -q -i --autosquash v1; git log --oneline; git show --stat HEAD~1`},
	{Name: "RebaseEdit", Script: `git checkout -q topic; at 10; GIT_SEQUENCE_EDITOR="sed -i 1s/pick/edit/" git rebase -q -i v1; echo e >e; git add e; at 11; git commit -q --amend --no-edit; at 12; git rebase --continue; git log --oneline`},
	{Name: "RebaseComments", Often: true, Script: `git config core.commentChar '#'; git checkout -q topic; at 10; git -c core.commentChar=';' rebase -q master; git log --oneline; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/drop/' git -c core.commentChar=% rebase -q -i v1; git log --oneline`},
	{Name: "RebaseMerges", Script: `at 10; git merge -q --no-edit topic; at 11; git rebase -q -r --onto v1 v1 --force-rebase; git log --graph --oneline`},
	{Name: "RebaseAutostash", Script: `git checkout -q topic; echo dirty >>src/b.txt; at 10; git rebase -q --autostash master; git status --porcelain; git stash list`},
	{Name: "CherryPick", Script: `at 10; git cherry-pick topic~1 topic; git log --oneline; at 11; git cherry-pick -x -n topic~1 || :; git reset -q --hard`},
	{Name: "CherryPickConflict", Script: `echo x >src/t.txt; git add -A; commit 10 -m x; at 11; git cherry-pick topic~1 topic || echo both >src/t.txt; git add -A; at 12; git cherry-pick --continue; git log --oneline`},
	{Name: "Revert", Script: `at 10; git revert --no-edit HEAD; at 11; git revert HEAD; git log --oneline; at 12; git revert -n HEAD~1; git revert --abort`},
	{Name: "Tag", Script: `at 10; git tag light; git tag -a -m 'a note' noted; git tag -d v1; git tag -f light topic; git tag -a none || git tag -n; git cat-file -p noted`},
	{Name: "Notes", Script: `at 10; git notes add -m note HEAD; at 11; git notes append -m more HEAD; git log -1; git notes remove HEAD`},
	{Name: "Patches", Script: `git format-patch -q -o out v1..topic; git checkout -q -b am v1; at 10; git am -q out/*; git log --oneline; git diff v1 >d; git checkout -q -b ap v1; git apply --index d; commit 11 -m applied; git apply -R d; git status --porcelain`},
	{Name: "AmConflict", Script: `git format-patch -q -o out v1..topic; echo x >src/t.txt; git add src; commit 10 -m x; at 11; git am -q out/* || git am --show-current-patch=diff | head -3; git am --abort; git am -q -3 out/* || git am --skip; git log --oneline`},
	{Name: "Bisect", Often: true, Script: `for i in 1 2 3 4 5 6; do echo $i >n; git add n; commit 1$i -m n$i; done; git bisect start HEAD v1; git bisect run sh -c '[ ! -e n ] || [ $(cat n) -lt 4 ]'; git bisect log | tail -1; git bisect reset; git bisect start HEAD v1 -- n src; git bisect reset`},
	{Name: "Clean", Script: `echo x >x.o; mkdir junk; echo j >junk/j; git clean -nd; git clean -fdq -e .env.local; git clean -fXq '*.o'; git status --porcelain --ignored`, Hidden: "!! .env.local\n"},
	{Name: "Gc", Script: `git gc -q; git log --oneline --all; git repack -qad; git prune; echo x >x; git add x; commit 10 -m x; git count-objects | cut -d, -f1; git commit-graph write; git multi-pack-index write; git fsck --strict`},
	{Name: "Sparse", Script: `git sparse-checkout set src; ls; git status --porcelain; echo s >>src/b.txt; commit 10 -am s; git sparse-checkout add docs; ls; git sparse-checkout disable; ls`},
	{Name: "SparseWorktree", Differs: true, Often: true, Script: `git update-index -q --refresh; git sparse-checkout set --sparse-index src; git worktree add -q wt topic; ls wt; git -C wt config --worktree -l; git -C wt sparse-checkout add docs; ls wt; git -C wt status --porcelain; git worktree remove wt`},
	{Name: "Worktree", Often: true, Script: `git worktree add -q wt topic; cd wt; echo w >w; git add w; commit 10 -m w; cd ..; git worktree add -q -b new ../wt-out v1; git -C ../wt-out log --oneline; git worktree list | wc -l; git worktree lock wt; git worktree unlock wt; git worktree move wt wt2; git -C wt2 status --porcelain; git worktree remove wt2; rm -rf ../wt-out; git worktree prune -v; git worktree list | wc -l; git worktree add -q --detach kept; git log --oneline topic`},
	{Name: "WorktreeRebase", Script: `git worktree add -q wt topic; cd wt; echo x >src/t.txt; at 10; git commit -qam x; git rebase -q master; git stash list; echo d >>src/t.txt; git stash -q; git stash pop -q; commit 11 -am d; git log --oneline`},
	{Name: "Submodule", Often: true, Script: `git -c protocol.file.allow=always submodule --quiet add ../lib sub; commit 10 -m sub; git submodule status; cd sub; echo s >s; git add s; commit 11 -m s; cd ..; commit 12 -am bump; rm -rf sub; git -c protocol.file.allow=always submodule --quiet update; git submodule foreach --quiet 'git status --porcelain'; git rm -q sub; commit 13 -m gone`},
	{Name: "Subtree", Script: `git remote add lib ../lib; git fetch -q lib; at 10; git merge -q --allow-unrelated-histories -s ours --no-commit lib/master; git read-tree --prefix=sub/ -u lib/master; commit 11 -m subtree; git log --oneline`},
	{Name: "PushAndFetch", Differs: true, Script: `git clone -q --bare . .git/up; git remote add up ./.git/up; git push -q -u up master; echo p >p; git add p; commit 10 -m p; git push -q; git checkout -q -b pulled v1; git pull -q --ff-only up master; git branch -u up/master; git status -sb | head -1; git fetch -q --prune up; git push -q up :topic; git ls-remote up`},
	{Name: "PullRebase", Differs: true, Script: `git clone -q . ../other; cd ../other; echo o >o; git add o; commit 10 -m o; cd ../repo; echo m >m; git add m; commit 11 -m m; cd ../other; at 12; git pull -q --rebase; git log --oneline; at 13; git pull -q --no-rebase`},
	{Name: "CloneShared", Differs: true, Often: true, Script: `git clone -q -s . ../shared; git -C ../shared log --oneline; rm -rf ../shared; git clone -q --dissociate --reference . . ../alone; git -C ../alone fsck --strict; git clone -q -s --bare . .git/bare; git -C .git/bare log --oneline; git clone -q -s --separate-git-dir=.git/apart . ../apart; git -C ../apart log --oneline; rm -rf .git/bare`},
	{Name: "Config", Script: `git config user.name Other; git config pull.rebase true; git config branch.topic.description d; echo c >c; git add c; commit 10 -m c; git config --unset user.name; git log -1 --format=%an; git config --get-regexp '^(pull|branch)'`},
	{Name: "Attributes", Script: `echo '*.txt text eol=crlf' >.gitattributes; git add .gitattributes; git add --renormalize .; commit 10 -m attributes; rm src/a.txt; git checkout -q src/a.txt; file=$(wc -c <src/a.txt); echo $file; git ls-files --eol src; git archive HEAD src | tar -tf -`},
	{Name: "IndexTools", Script: `git update-index --assume-unchanged src/b.txt; echo x >>src/b.txt; git status --porcelain; git update-index --no-assume-unchanged src/b.txt; git hash-object -w src/b.txt; t=$(git write-tree); at 10; git commit-tree -m plumbing -p HEAD $t; git read-tree v1; git checkout-index -fa; git status --porcelain; git update-index --split-index; git update-index --no-split-index; git reset -q --hard`},
	{Name: "FilterBranch", Script: `at 10; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'sed s/^/x:/' v1..HEAD >/dev/null; git log --oneline`},
	{Name: "FastExport", Script: `git fast-export --all >all; git init -q imported; git -C imported fast-import --quiet <all; git -C imported log --all --oneline; git bundle create -q b --all; git init -q from-bundle; git -C from-bundle pull -q ../b master; git -C from-bundle log --oneline`},
	{
		Name: "WorktreeSecrets", Script: `cd ../tracked; git worktree add -q wt topic; cd wt; git status --porcelain; echo w >>src/b.txt; commit 10 -am w; cat .env`,
		Refused: []string{"error: unable to create file .env: Permission denied", "denied by the rules: create WorktreeSecrets/tracked/wt/.env", "--reveal '/WorktreeSecrets/tracked/wt/.env=write'"},
		Reveal:  []string{"../tracked/wt/.env", "../tracked/wt/server.key"}, Often: true,
	},
	{
		Name: "CheckoutSecrets", Script: `git fetch -q ../tracked master; git checkout -q --detach FETCH_HEAD; git status --porcelain; cat .env`,
		Refused: []string{"error: unable to create file .env: Permission denied", "denied by the rules: create CheckoutSecrets/repo/.env", "--reveal '/CheckoutSecrets/repo/.env=write'"},
		Reveal:  []string{".env", "server.key"}, Again: `git restore .; git status --porcelain; cat .env`,
	},
	{Name: "CommitHook", Script: `printf '#!/bin/sh\ngit add src/c.txt\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo x >>src/c.txt; echo x >>src/b.txt; git add src/b.txt; commit 10 -s -m hooked; git show --stat; git config core.hooksPath hooks.d; mkdir hooks.d; echo 'exit 1' >hooks.d/pre-commit; chmod +x hooks.d/pre-commit; echo y >>src/b.txt; git commit -qam y || git status --porcelain`},
	{Name: "Detached", Script: `git branch -m trunk; git checkout -q --detach v1; echo z >>src/b.txt; commit 10 -am z; git log --oneline; git branch -D topic`},
	{Name: "Orphan", Script: `git checkout -q --orphan o; git rm -rqf .; echo o >o; git add o; commit 10 -m o; git log --oneline; git status --porcelain`, Hidden: "?? .env.local\n"},
	{Name: "RebaseExec", Often: true, Script: `git checkout -q topic; at 10; git rebase -q -x 'git log -1 --format=%s' -x 'echo e >>e; git add e; git commit -q --amend --no-edit' master; git log --oneline --stat`},
	{Name: "Staged", Often: true, Script: `echo x >>src/a.txt; echo n >new; git add src/a.txt new; git rm -q docs/empty; git mv src/c.txt src/e.txt; chmod +x src/b.txt; git add src/b.txt; echo u >u; rm run.sh; git status --porcelain`},
	{Name: "RemoteRename", Script: `git remote add a ../lib; git fetch -q a; git remote rename a b 2>&1; git branch -r`},
	{Name: "SubmoduleDeinit", Script: `git -c protocol.file.allow=always submodule --quiet add ../lib sub; commit 10 -m sub; git submodule --quiet deinit -f sub; git submodule status; [ -z "$(git config submodule.sub.url)" ]`},
}
