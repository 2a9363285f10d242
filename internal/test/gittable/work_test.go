package gittable_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A step is what must work inside, at the top of the codebase. Each comes after those
// before it.
type step struct{ name, script string }

var firstLife = []step{
	{"init", "git init -q -b main one; cd one; git config user.name inside; git config user.email inside@example.org; test $(git config user.name) = inside"},
	{"add and commit", "cd one; echo 1 >a; echo 1 >b; git add .; git commit -q -m 1; echo 2 >a; git commit -q -a -m 2; git status --porcelain | wc -l | grep -qx 0"},
	{"branch and checkout", "cd one; git checkout -q -b side HEAD~1; echo side >c; git add c; git commit -q -m side; git checkout -q main; git branch -m side other; git switch -q -c third; git switch -q main; git branch -d third"},
	{"merge", "cd one; git merge -q -m merged other; test -e c"},
	{"merge with a conflict", "cd one; git checkout -q -b x HEAD~1; echo x >a; git commit -q -a -m x; git checkout -q -b y HEAD~1; echo y >a; git commit -q -a -m y; git branch y2; ! git merge -q x; echo z >a; git add a; git commit -q -m z; git checkout -q y2; ! git merge -q x; git merge --abort; git checkout -q main"},
	{"rebase", "cd one; git checkout -q -b onto main~1; echo o >o; git add o; git commit -q -m o; git rebase -q main; git checkout -q main"},
	{"rebase -i", "cd one; git checkout -q onto; echo p >p; git add p; git commit -q -m p; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/reword/' GIT_EDITOR=true git rebase -q -i HEAD~2; git checkout -q main"},
	{"rebase that stops", "cd one; git checkout -q -b stops x; ! git rebase -q y2; echo r >a; git add a; GIT_EDITOR=true git rebase --continue; git checkout -q main"},
	{"rebase --abort", "cd one; git checkout -q -b aborts x; ! git rebase -q y2; git rebase --abort; git checkout -q main"},
	{"autosquash", "cd one; git checkout -q onto; echo q >>p; git commit -q -a --fixup HEAD; GIT_SEQUENCE_EDITOR=true git rebase -q -i --autosquash HEAD~3; git checkout -q main"},
	{"cherry-pick and revert", "cd one; git checkout -q -b pick main; git cherry-pick onto; git revert --no-edit HEAD; git checkout -q x; ! git cherry-pick onto~9 y2; git cherry-pick --abort || true; git checkout -q main"},
	{"am", "cd one; git format-patch -q -1 onto -o ../patches; git checkout -q -b mail main; git am -q ../patches/*; git checkout -q -b mailed main; git am -q -p1 -C3 --whitespace=fix --exclude='*.none' ../patches/*; git checkout -q main"},
	{"am that stops", "cd one; git format-patch -q -1 x -o ../patches2; git checkout -q -b mail2 y2; ! git am -q --ignore-whitespace ../patches2/*; git am --skip; ! git am -q ../patches2/*; git am --abort; git checkout -q main"},
	{"bisect", "cd one; git bisect start main main~1; git bisect run true; git bisect reset"},
	{"stash", "cd one; echo more >>a; git stash -q; git stash pop -q; git checkout -q a"},
	{"tag", "cd one; git tag v1; git tag -a -m two v2; git describe | grep -q v2"},
	{"clone", "git clone -q one two; git -C two log -1; git -C two fetch -q; git -C two pull -q"},
	{"clone with a URL", "git clone -q file://$PWD/one two-u; git -C two-u fsck"},
	{"clone --bare", "git clone -q --bare one one.git; git -C one.git log -1"},
	{"clone --mirror", "git clone -q --mirror one mirror.git; git -C mirror.git remote update"},
	{"clone --shared", "git clone -q --shared one shared; git -C shared fsck"},
	{"clone -b, --depth, --no-checkout, -o", "git clone -q --depth 1 file://$PWD/one shallow; git -C shallow fetch -q --unshallow; git clone -q -b other -n -o up one parts; git -C parts checkout -q"},
	{"init --bare and push", "git init -q --bare -b main three.git; cd two; git remote add three ../three.git; git push -q -u three main; git checkout -q -b feature; git commit -q --allow-empty -m f; git push -q -u three feature; test $(git config branch.feature.remote) = three"},
	{"remotes", "cd two; git remote add gone ../absent; git remote rename gone away; git remote set-url away ../y; git remote remove away; git remote -v; git branch --set-upstream-to=three/main main; git branch --unset-upstream main; git branch -u origin/main main"},
	{"push to the remote of the host", "cd known; git checkout -q -b inside; git commit -q --allow-empty -m i; git log -1"},
	{"known: remote and upstream", "cd known; git remote add three ../three.git; git fetch -q three; git push -q -u three inside; git branch -u three/main inside; git config user.name x"},
	{"known: branch removed", "cd known; git checkout -q main; git branch -q -D inside"},
	{"known: submodule and worktree", "cd known; git -C sub log -1; git -C sub checkout -q -b s; echo s >sub/s; git -C sub add s; git -C sub commit -q -m s; git add sub; git commit -q -m sub"},
	{"submodule add", "cd one; git -c protocol.file.allow=always submodule -q add ../three.git deps/three; git commit -q -m module; git submodule status; git -c protocol.file.allow=always submodule -q update --init; cd deps/three; git fetch -q; git checkout -q -b m; git commit -q --allow-empty -m m"},
	{"submodule clone", "git -c protocol.file.allow=always clone -q --recurse-submodules one modules; git -C modules/deps/three log -1"},
	{"submodule deinit", "cd modules; git submodule -q deinit -f deps/three; git -c protocol.file.allow=always submodule -q update --init; git submodule foreach -q git log -1"},
	{"worktree", "cd one; git worktree add -q ../tree -b tree; cd ../tree; echo t >t; git add t; git commit -q -m t; git worktree list; cd ../one; git worktree add -q ../gone; git worktree remove ../gone; git worktree prune"},
	{"notes and replace", "cd one; git notes add -m note; git log -1 | grep -q note; git replace -d x 2>/dev/null || true"},
	{"gc and repack", "cd one; git gc -q; git repack -adq; git fsck --strict; git prune; git pack-refs --all; git commit-graph write"},
	{"archive and bundle", "cd one; git archive HEAD | tar t >/dev/null; git bundle create -q ../one.bundle main; git init -q -b main bundled; git -C bundled pull -q ../../one.bundle main"},
	{"sparse", "git clone -q one sparse; cd sparse; git read-tree -mu HEAD; git update-index --split-index; git update-index --no-split-index; git status"},
	{"blame, grep, diff", "cd one; git blame a; git grep -q 2 a; git diff HEAD~1 --stat; git shortlog -s HEAD; git reflog"},
	{"reset and clean", "cd two; echo x >x; git clean -fdq; git reset -q --hard HEAD~1; git reset -q --soft ORIG_HEAD"},
	{"remove a clone", "rm -rf two-u shallow parts mirror.git; test ! -e two-u; git clone -q one two-u"},
	{"move a clone", "mv two-u moved; git -C moved status; mkdir below; mv moved below/moved; git -C below/moved log -1"},
	{"template", "git init -q --template= bald; test ! -e bald/.git/hooks; git init -q bald"},
	{"sha256", "git init -q --object-format=sha256 wide; cd wide; git commit -q --allow-empty -m w"},
	{"files that are named like git's", "mkdir -p names/objects names/refs; echo x >names/config; echo y >names/HEAD.txt; mkdir -p names/hooks; echo h >names/hooks/pre-commit; echo l >names/config.lock; mv names/config.lock names/config; rm -rf names"},
}

var secondLife = []step{
	{"commit", "cd one; echo again >again; git add again; git commit -q -m again"},
	{"checkout", "cd one; git checkout -q -b later; git checkout -q main; git merge -q later"},
	{"config", "cd one; git config user.name second; git config user.email second@example.org; test $(git config user.name) = second"},
	{"remote", "cd one; git remote add more ../three.git; git fetch -q more; git push -q -u more main:refs/heads/more"},
	{"branch -u", "cd one; git branch -u more/main main"},
	{"rebase", "cd one; git checkout -q -b late main~1; git commit -q --allow-empty -m l; git rebase -q main; git checkout -q main"},
	{"gc", "cd one; git gc -q; git fsck --strict"},
	{"bare", "cd two; git push -q three HEAD:refs/heads/second"},
	{"submodule", "cd one/deps/three; git checkout -q -b second; git commit -q --allow-empty -m s"},
	{"worktree", "cd tree; git commit -q --allow-empty -m w"},
	{"clone of it", "git clone -q one third; git -C third config user.name x; git -C third remote add o ../one"},
	{"clone removed again", "rm -rf third; test ! -e third"},
	{"stash", "cd two; echo 1 >>a; git stash -q; git stash pop -q"},
}

// TestWork: what people do with git works inside, and goes on in the next sandbox; and
// what it leaves is nothing that the host has to fear, and good.
func TestWork(t *testing.T) {
	do := func(steps []step) func(t *testing.T, c *inside) {
		return func(t *testing.T, c *inside) {
			for _, s := range steps {
				if out := c.run(t, ".", "set -e\n"+s.script); strings.Contains(out, "(exit") {
					t.Errorf("%s: %.1500s", s.name, out)
				}
			}
			if found := c.host(t, order{Do: "look", Dir: "."}); found != "" {
				t.Errorf("on the host:\n%s", found)
			}
			for _, dir := range []string{"one", "two", "three.git", "one.git", "known", "one/deps/three", "below/moved"} {
				if out := c.host(t, order{Do: "sh", Dir: ".", Script: "git -C " + dir + " fsck --strict && git -C " + dir + " log -1 --all >/dev/null"}); strings.Contains(out, "(exit") {
					t.Errorf("%s on the host: %.1000s", dir, out)
				}
			}
		}
	}
	lives(t, func(t *testing.T, host string, m marks) {
		newRigging(t, host).copies(t, "known")
		writeFile(t, filepath.Join(host, "x"), "", 0o644)
	}, do(firstLife), do(secondLife))
}
