package gitsync

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// sequences are what the sandbox does; the host must then be as if git had run there. The names
// begin with the row of the acceptance table.
var sequences = []struct{ name, script string }{
	{"1 commit", "echo x >>src/a; git commit -qam x"},
	{"2 new file", "echo x >new; git add new; git commit -qm x"},
	{"3 two commits", "echo x >>src/a; git commit -qam x; echo y >>src/a; git commit -qam y"},
	{"4 empty commit", "git commit -q --allow-empty -m e"},
	{"5 commit -s with a hook", `printf '#!/bin/sh\ngit add src/b\n' >$GIT_DIR/hooks/pre-commit; chmod +x $GIT_DIR/hooks/pre-commit; echo h >>src/b; echo x >>src/a; git add src/a; git commit -qsm hooked`},
	{"6 amend", "echo x >>src/a; git commit -qa --amend -m am"},
	{"7 commit, then amend", "echo x >>src/a; git commit -qam x; git commit -q --amend -m y"},
	{"8 branch", "git branch b1; git branch b2 v1"},
	{"9 branch -m", "git branch -m topic other"},
	{"10 branch -m of HEAD", "git branch -m main trunk"},
	{"11 branch -D", "git branch -D topic"},
	{"12 branch -c, -f", "git branch -c topic c; git branch -f topic v1"},
	{"13 checkout -b, commit", "git checkout -qb fix; echo x >>src/a; git commit -qam x"},
	{"14 switch", "git switch -q topic"},
	{"14 switch and commit", "git switch -q topic; echo x >>src/t; git commit -qam x"},
	{"15 detached", "git checkout -q v1"},
	{"16 detached commit", "git checkout -q v1; echo z >>src/a; git commit -qam z"},
	{"16 deleted after detaching", "git checkout -q --detach; git branch -D main"},
	{"17 orphan", "git checkout -q --orphan o; git rm -rqf .; echo o >o; git add o; git commit -qm o"},
	{"18 reset --hard", "git reset -q --hard HEAD~1"},
	{"19 reset --soft", "git reset -q --soft HEAD~1; git commit -qm again"},
	{"20 reset", "git reset -q HEAD~1"},
	{"21 merge, fast-forward", "git checkout -qb ff v1; git merge -q topic"},
	{"22 merge", "git merge -q --no-edit topic"},
	{"23 merge with a conflict", "echo m >src/t; git add -A; git commit -qm m; git merge -q topic; echo both >src/t; git add -A; git commit -qm merged"},
	{"24 merge --abort", "echo m >src/t; git add -A; git commit -qm m; git merge -q topic; git merge --abort"},
	{"25 merge --squash", "git merge -q --squash topic; git commit -qm sq"},
	{"26 rebase", "git checkout -q topic; git rebase -q main"},
	{"27 rebase -i", "git checkout -q topic; GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' git rebase -q -i v1"},
	{"28 rebase --exec", "git checkout -q topic; git rebase -q -x true main"},
	{"29 rebase with conflicts", "echo x >src/t; git add -A; git commit -qm x; git checkout -q topic; git rebase -q main; echo both >src/t; git add -A; git rebase --continue; echo both2 >src/t; git add -A; git rebase --continue"},
	{"30 rebase --abort", "echo x >src/t; git add -A; git commit -qm x; git checkout -q topic; git rebase -q main; git rebase --abort"},
	{"31 autosquash", "git checkout -q topic; echo f >>src/b; git commit -qa --fixup HEAD~1; GIT_SEQUENCE_EDITOR=: git rebase -q -i --autosquash v1"},
	{"32 cherry-pick", "git cherry-pick topic~1 topic"},
	{"33 revert", "git revert --no-edit HEAD"},
	{"34 tags", "git tag light; git tag -a -m note noted; git tag -d v1"},
	{"35 tag -f", "git tag -f v1 topic"},
	{"36 notes", "git notes add -m n HEAD; git notes append -m more"},
	{"37 stash", "echo x >>src/b; git stash -q"},
	{"37 two stashes", "echo x >>src/b; git stash push -qm one; echo y >>src/c; git stash push -qm two"},
	{"38 stash pop", "echo x >>src/b; git stash -q; git stash pop -q"},
	{"39 staged", "echo x >>src/a; echo n >new; git add src/a new"},
	{"39 staged deletion and rename", "git rm -q src/b; git mv src/c src/e"},
	{"40 unstaged", "echo x >>src/a; rm src/b; echo u >u"},
	{"40 clean", "echo x >x.o; mkdir j; echo j >j/j; git clean -fdq"},
	{"41 bisect", "for i in 1 2 3 4; do echo $i >k; git add k; git commit -qm n$i; done; git bisect start HEAD v1; git bisect run sh -c '[ ! -e k ] || [ $(cat k) -lt 3 ]'; git bisect reset"},
	{"42 am", "git format-patch -q -o out v1..topic; git checkout -qb am v1; git am -q out/*; rm -r out"},
	{"42 filter-branch", "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'sed s/^/x:/' v1..HEAD; git update-ref -d refs/original/refs/heads/main"},
	{"42 subtree", "git read-tree --prefix=sub/ -u topic; git commit -qm sub"},
	{"42 commit-tree", "git update-ref refs/heads/pl $(git commit-tree -m pl -p HEAD v1^{tree})"},
	{"42 mode, link, case", "chmod +x src/a; ln -s a src/l; git add -A; git mv src/b src/B; git commit -qm m"},
	{"42 file to directory", "git rm -q src/a; mkdir src/a; echo x >src/a/x; git add -A; git commit -qm d"},
	{"43 pack-refs, gc", "echo x >>src/a; git commit -qam x; git pack-refs --all; git gc -q; git repack -qad; git prune"},
}

func TestSequences(t *testing.T) {
	for _, s := range sequences {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, 1)
			twin := filepath.Join(w.root, "twin")
			if out, err := exec.Command("cp", "-a", w.repo, twin).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			shell(twin, nil, "git update-index -q --refresh")
			shell(twin, []string{"GIT_DIR=" + twin + "/.git"}, s.script) // it may end with a conflict
			w.in(s.script)
			w.sync()
			said := w.said()
			again := w.sync()
			want, host, in := shell(twin, nil, lookScript).out, w.try(lookScript), w.in(lookScript)
			if host != want[:len(want)-1] {
				t.Errorf("the host has\n%s\nwant\n%s\nit said %q", host, want, said)
			}
			if in != want[:len(want)-1] {
				t.Errorf("inside is\n%s\nwant\n%s\nit said %q", in, want, said)
			}
			if again.Moved || again.Pending != "" || len(again.Said)+len(again.Stays) > 0 {
				t.Errorf("a second sync says %+v", again)
			}
		})
	}
}
