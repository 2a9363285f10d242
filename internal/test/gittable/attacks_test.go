package gittable_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"wolffia/internal/test/testenv"
)

// prelude is what the scripts of attacks begin with. E is where the evil configuration
// and hooks are; repo makes a repository with them by hand, plainly and with git; bare
// and link make it one of a submodule.
const prelude = `E=$ROOT/evil
mark=$MARKS/core.fsmonitor
repo() {
	mkdir -p "$1/objects/info" "$1/refs/heads" "$1/hooks"
	cp $E/config "$1/config"
	cp -r $E/hooks/. "$1/hooks"
	echo 'ref: refs/heads/main' >"$1/HEAD"
}
late() {
	mkdir -p "$1/objects/info" "$1/refs/heads"
	echo 'ref: refs/heads/main' >"$1/HEAD"
	cp $E/config "$1/config"
}
spoil() { cp $E/config "$1/config"; mkdir -p "$1/hooks"; cp -r $E/hooks/. "$1/hooks"; }
gitlink() { git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),$1; }
made() { git init -q -b main $1; (cd $1; echo 1 >a.f; git add .; git commit -q -m 1); }
`

// attacks are scripts of the inside, each run at the top of a rig of its own.
var attacks = map[string]string{
	// New repositories below the files, and gitlinks to them.
	"nested/git init":            `made n; spoil n/.git; gitlink n`,
	"nested/git config":          `made n; git -C n config core.fsmonitor $mark; git -C n config include.path $E/config; gitlink n`,
	"nested/git config --file":   `made n; git config --file n/.git/config core.fsmonitor $mark; gitlink n`,
	"nested/by hand":             `repo n/.git; gitlink n`,
	"nested/config last":         `late n/.git; gitlink n`,
	"nested/template":            `mkdir t; cp $E/config t; cp -r $E/hooks t; git init -q --template=t n; gitlink n`,
	"nested/template clone":      `mkdir t; cp $E/config t; cp -r $E/hooks t; git clone -q --template=t bare.git n; gitlink n`,
	"nested/clone -c":            `git clone -q -c core.fsmonitor=$mark -c include.path=$E/config bare.git n; gitlink n`,
	"nested/clone --config":      `git clone -q --config core.hooksPath=$E/hooks --config filter.mark.smudge=$mark bare.git n; gitlink n`,
	"nested/cp -a":               `repo p; mkdir n; cp -a p n/.git; gitlink n`,
	"nested/cp -al":              `repo p; mkdir n; cp -al p n/.git; gitlink n`,
	"nested/cp -as":              `repo p; mkdir n; cp -as $PWD/p n/.git; gitlink n`,
	"nested/tar":                 `repo p; mkdir -p n/.git; tar cf - -C p . | tar xf - -C n/.git; gitlink n`,
	"nested/rsync":               `repo p; mkdir -p n; rsync -a p/ n/.git/; gitlink n`,
	"nested/mv to .git":          `repo p; mkdir n; mv p n/.git; gitlink n`,
	"nested/mv the parent":       `mkdir q; repo q/.git; mv q n; gitlink n`,
	"nested/mv of plain parts":   `repo p; mkdir -p n/.git; mv p/* n/.git/; gitlink n`,
	"nested/mv of .git to plain": `made n; mv n/.git n/g; spoil n/g; mv n/g n/.git; gitlink n`,
	"nested/mv -T onto empty":    `repo p; mkdir -p n/.git; mv -T p n/.git; gitlink n`,
	"nested/x.git to .git":       `git init -q --bare y.git; mv y.git y; spoil y; mkdir n; mv y n/.git; gitlink n`,
	"nested/link to plain":       `repo p; mkdir n; ln -s ../p n/.git; gitlink n`,
	"nested/link to config":      `made n; rm n/.git/config; ln -s $E/config n/.git/config; ln -s ../../../evil/config n/.git/config; gitlink n`,
	"nested/link to hooks":       `made n; rm -rf n/.git/hooks; ln -s ../../../evil/hooks n/.git/hooks; gitlink n`,
	"nested/hooks moved":         `made n; cp -r $E/hooks h; rm -rf n/.git/hooks; mv h n/.git/hooks; gitlink n`,
	"nested/sample renamed":      `made n; mkdir -p n/.git/hooks; cp $E/hooks/pre-commit n/.git/hooks/pre-commit.sample; mv n/.git/hooks/pre-commit.sample n/.git/hooks/pre-commit; gitlink n`,
	"nested/sample linked":       `made n; mkdir -p n/.git/hooks; cp $E/hooks/pre-commit n/.git/hooks/pre-commit.sample; ln n/.git/hooks/pre-commit.sample n/.git/hooks/pre-commit; gitlink n`,
	"nested/sample symlinked":    `made n; mkdir -p n/.git/hooks; cp $E/hooks/pre-commit n/.git/hooks/pre-commit.sample; ln -s pre-commit.sample n/.git/hooks/pre-commit; gitlink n`,
	"nested/deep":                `mkdir -p d/d/d/d; made d/d/d/d/n; spoil d/d/d/d/n/.git; gitlink d/d/d/d/n`,
	"nested/in the submodule":    `made sub/n; spoil sub/n/.git; (cd sub; gitlink n)`,
	"nested/in the worktree":     `made wt/n; spoil wt/n/.git; (cd wt; gitlink n)`,
	"nested/in a known bare":     `made bare.git/n; spoil bare.git/n/.git`,
	"nested/in .git":             `repo .git/n; repo .git/annex/n/.git; mkdir n; echo "gitdir: ../.git/n" >n/.git; gitlink n`,
	"nested/in .git/objects":     `repo .git/objects/n; mkdir n; echo "gitdir: ../.git/objects/n" >n/.git; gitlink n`,
	"nested/in .git/refs":        `repo .git/refs/n.git; mkdir n; echo "gitdir: ../.git/refs/n.git" >n/.git; gitlink n`,
	"nested/in .git/logs":        `mkdir -p .git/logs; repo .git/logs/modules/n; mkdir n; echo "gitdir: ../.git/logs/modules/n" >n/.git; gitlink n`,
	"nested/in .git/hooks":       `repo .git/hooks/n.sample; mkdir n; echo "gitdir: ../.git/hooks/n.sample" >n/.git; gitlink n`,
	"nested/worktreeConfig":      `made n; git -C n config extensions.worktreeConfig true; cp $E/config n/.git/config.worktree; gitlink n`,
	"nested/sparse-checkout":     `made n; git -C n sparse-checkout set x; cp $E/config n/.git/config.worktree; git -C n config --worktree core.fsmonitor $mark; gitlink n`,
	"nested/open descriptor":     `made n; exec 7>n/c; mv n/c n/.git/config; cat $E/config >&7; gitlink n`,
	"nested/config directory":    `made n; rm n/.git/config; mkdir n/.git/config; cp $E/config n/.git/config/config; gitlink n`,
	"nested/modules by add":      `git -c protocol.file.allow=always submodule -q add ./bare.git n; spoil .git/modules/n`,
	"nested/modules --name":      `git -c protocol.file.allow=always submodule -q add --name ../../x ./bare.git n; git -c protocol.file.allow=always submodule -q add --name hooks/y ./bare.git m; spoil .git/modules/hooks/y`,
	"nested/modules by hand":     `repo .git/modules/n; mkdir n; echo "gitdir: ../.git/modules/n" >n/.git; gitlink n`,
	"nested/modules deep":        `repo .git/modules/a/b/c.d/modules/e; mkdir n; echo "gitdir: ../.git/modules/a/b/c.d/modules/e" >n/.git; gitlink n`,
	"nested/modules of hooks":    `repo .git/modules/hooks; repo .git/modules/config; mkdir n; echo "gitdir: ../.git/modules/hooks" >n/.git; gitlink n`,
	"nested/modules of modules":  `repo .git/modules/sub/modules/n; mkdir sub/n; echo "gitdir: ../../.git/modules/sub/modules/n" >sub/n/.git; (cd sub; gitlink n)`,
	"nested/modules moved":       `repo p; mkdir -p .git/modules; mv p .git/modules/n; mkdir n; echo "gitdir: ../.git/modules/n" >n/.git; gitlink n`,
	"nested/modules replaced":    `mv .git/modules .git/m; repo m/sub; mv m .git/modules`,
	"nested/modules exchanged":   `repo p; mv .git/modules/sub .git/modules/old; mv p .git/modules/sub`,
	"nested/modules link":        `repo m/sub; mv .git/modules .git/old; ln -s ../m .git/modules`,
	"nested/worktrees by hand":   `mkdir -p .git/worktrees/n n; echo 'ref: refs/heads/main' >.git/worktrees/n/HEAD; echo ../../../p >.git/worktrees/n/commondir; repo p; echo "gitdir: ../.git/worktrees/n" >n/.git; gitlink n`,
	"nested/worktrees whole":     `repo .git/worktrees/n; mkdir n; echo "gitdir: ../.git/worktrees/n" >n/.git; gitlink n`,
	"nested/worktrees commondir": `repo p; echo ../../../p >.git/worktrees/wt/commondir`,
	"nested/worktrees moved":     `mkdir p w; echo ../../../p >w/commondir; echo 'ref: refs/heads/main' >w/HEAD; repo p; mv .git/worktrees/wt .git/worktrees/old; mv w .git/worktrees/wt`,
	"nested/worktrees config":    `git config extensions.worktreeConfig true; cp $E/config .git/worktrees/wt/config.worktree; cp $E/config .git/config.worktree`,
	"nested/worktree of new":     `made n; (cd n; git worktree add -q w; cp $E/config .git/worktrees/w/config.worktree; echo ../../../../p >.git/worktrees/w/commondir); repo p`,
	"nested/reftable":            `mkdir -p n/.git/objects n/.git/reftable; echo 'ref: refs/heads/.invalid' >n/.git/HEAD; spoil n/.git; gitlink n`,
	"nested/HEAD a link":         `mkdir -p n/.git/objects n/.git/refs; ln -s refs/heads/main n/.git/HEAD; spoil n/.git; gitlink n`,

	// Repositories that no name tells.
	"bare/x.git by hand":      `repo x.git`,
	"bare/x.git by git":       `git init -q --bare x.git; spoil x.git`,
	"bare/.git by name only":  `mkdir .git/.git; repo .git/.git`,
	"bare/HEAD last":          `repo plain`,
	"bare/objects last":       `repo plain2; mv plain2/objects .; mv plain2 plain; mv objects plain/`,
	"bare/refs last":          `mkdir -p plain/objects; echo 'ref: refs/heads/main' >plain/HEAD; spoil plain; mkdir plain/refs`,
	"bare/parts by rename":    `mkdir -p plain o r; spoil plain; echo 'ref: refs/heads/main' >h; mv o plain/objects; mv r plain/refs; mv h plain/HEAD`,
	"bare/HEAD linked":        `mkdir -p plain/objects plain/refs; spoil plain; echo 'ref: refs/heads/main' >h; ln h plain/HEAD`,
	"bare/HEAD a link":        `mkdir -p plain/objects plain/refs; spoil plain; ln -s refs/heads/main plain/HEAD`,
	"bare/HEAD a link to h":   `mkdir -p plain/objects plain/refs; spoil plain; echo 'ref: refs/heads/main' >h; ln -s ../h plain/HEAD`,
	"bare/HEAD by its lock":   `mkdir -p plain/objects plain/refs; spoil plain; echo 'ref: refs/heads/main' >plain/HEAD.lock; mv plain/HEAD.lock plain/HEAD`,
	"bare/HEAD detached":      `mkdir -p plain/objects plain/refs; spoil plain; git rev-parse HEAD >plain/HEAD`,
	"bare/HEAD nonsense":      `mkdir -p plain/objects plain/refs; spoil plain; echo nonsense >plain/HEAD`,
	"bare/HEAD a directory":   `mkdir -p plain/objects plain/refs plain/HEAD; spoil plain; rmdir plain/HEAD; echo 'ref: refs/heads/main' >plain/HEAD`,
	"bare/HEAD a FIFO":        `mkdir -p plain/objects plain/refs; spoil plain; mkfifo plain/HEAD`,
	"bare/objects a file":     `mkdir -p plain/refs; spoil plain; echo >plain/objects; chmod +x plain/objects; echo 'ref: refs/heads/main' >plain/HEAD`,
	"bare/both files":         `mkdir plain; spoil plain; echo >plain/objects; echo >plain/refs; chmod +x plain/objects plain/refs; echo 'ref: refs/heads/main' >plain/HEAD`,
	"bare/objects a link":     `mkdir plain; spoil plain; ln -s ../.git/objects plain/objects; ln -s ../.git/refs plain/refs; echo 'ref: refs/heads/main' >plain/HEAD`,
	"bare/dangling links":     `mkdir plain; spoil plain; ln -s ../o plain/objects; ln -s ../r plain/refs; echo 'ref: refs/heads/main' >plain/HEAD; mkdir o r`,
	"bare/reftable":           `mkdir -p plain/objects plain/reftable; spoil plain; echo 'ref: refs/heads/.invalid' >plain/HEAD`,
	"bare/commondir":          `mkdir -p plain; echo ../p >plain/commondir; repo p; echo 'ref: refs/heads/main' >plain/HEAD`,
	"bare/commondir last":     `mkdir -p plain; echo 'ref: refs/heads/main' >plain/HEAD; echo ../.git >plain/commondir; cp $E/config plain/config.worktree`,
	"bare/commondir moved":    `mkdir -p plain; echo 'ref: refs/heads/main' >plain/HEAD; echo ../bare.git >c; mv c plain/commondir; spoil plain`,
	"bare/x.git to plain":     `git init -q --bare x.git; mv x.git plain; spoil plain`,
	"bare/.git to plain":      `made n; mv n/.git plain; spoil plain`,
	"bare/known .git moved":   `mv .git plain; spoil plain`,
	"bare/known moved":        `mv bare.git plain; spoil plain`,
	"bare/copied":             `cp -a bare.git plain; spoil plain`,
	"bare/cloned":             `git clone -q --bare bare.git plain; spoil plain`,
	"bare/init --bare":        `git init -q --bare plain; spoil plain`,
	"bare/separate":           `git init -q --separate-git-dir=plain n; spoil plain; gitlink n`,
	"bare/submodule absorbed": `made n; spoil n/.git; gitlink n; git submodule absorbgitdirs`,
	"bare/modules to plain":   `mv .git/modules/sub plain; spoil plain; echo "gitdir: ../plain" >sub/.git`,
	"bare/worktree to plain":  `mv .git/worktrees/wt plain; echo ../p >plain/commondir; repo p`,
	"bare/upper case":         `repo PLAIN.GIT; repo .GIT; repo x.Git`,
	"bare/trailing dot":       `repo 'x.git.'; repo 'x.git '`,
	"bare/in hidden":          `repo .cache; repo .github`,

	// The top as a bare repository.
	"top/HEAD removed":       `rm .git/HEAD; repo .`,
	"top/HEAD moved":         `mv .git/HEAD .git/H; repo .`,
	"top/HEAD nonsense":      `echo nonsense >.git/HEAD; repo .`,
	"top/HEAD by its lock":   `echo nonsense >.git/HEAD.lock; mv .git/HEAD.lock .git/HEAD; repo .`,
	"top/HEAD a directory":   `rm .git/HEAD; mkdir .git/HEAD; repo .`,
	"top/HEAD not readable":  `chmod 0 .git/HEAD; repo .`,
	"top/HEAD exchanged":     `ln -s nowhere .git/h; mv -T .git/h .git/HEAD; repo .`,
	"top/objects removed":    `mv .git/objects o; repo .`,
	"top/objects closed":     `chmod 600 .git/objects; repo .`,
	"top/refs removed":       `rm -rf .git/refs; repo .`,
	"top/refs closed":        `chmod 0 .git/refs; repo .`,
	"top/.git closed":        `chmod 0 .git; repo .`,
	"top/.git moved":         `mv .git g; repo .`,
	"top/.git removed":       `rm -rf .git; repo .`,
	"top/.git a file":        `mv .git g; repo p; echo "gitdir: p" >.git`,
	"top/.git a link":        `mv .git g; repo p; ln -s p .git`,
	"top/.git an empty file": `mv .git g; repo .; : >.git`,
	"top/of the submodule":   `rm .git/modules/sub/HEAD; rm -f sub/.git; repo sub`,
	"top/of the worktree":    `rm .git/worktrees/wt/HEAD; rm -f wt/.git; repo wt`,
	"top/bare HEAD":          `rm bare.git/HEAD; mv bare.git/objects o; repo .`,
	"top/config gone":        `rm .git/config; cp $E/config .git/config`,

	// Files and links that lead to a git directory.
	"pointer/plain":            `repo p; mkdir n; echo "gitdir: ../p" >n/.git; gitlink n`,
	"pointer/absolute":         `repo p; mkdir n; echo "gitdir: $PWD/p" >n/.git; gitlink n`,
	"pointer/host's path":      `repo p; mkdir n; echo "gitdir: $HOST/${PWD#$ROOT/}/p" >n/.git; gitlink n`,
	"pointer/above":            `mkdir n; echo "gitdir: ../../../marks/outside" >n/.git; gitlink n`,
	"pointer/over a link":      `repo p; ln -s p l.git; mkdir n; echo "gitdir: ../l.git" >n/.git; gitlink n`,
	"pointer/over two links":   `repo p; mkdir d; ln -s ../p d/.git; mkdir n; echo "gitdir: ../d/.git" >n/.git; gitlink n`,
	"pointer/link to outside":  `ln -s ../../marks/outside l.git; mkdir n; echo "gitdir: ../l.git" >n/.git; mkdir o; ln -s ../../../marks/outside o/.git; gitlink n; gitlink o`,
	"pointer/dots":             `repo p; mkdir n; echo "gitdir: ../sub/../p" >n/.git; gitlink n`,
	"pointer/dots over a link": `repo p; mkdir -p q/r n; ln -s q/r l; mkdir q/.git; repo q/p; echo "gitdir: ../l/../p" >n/.git; gitlink n`,
	"pointer/no space":         `repo p; mkdir n; printf 'gitdir:../p\n' >n/.git; gitlink n`,
	"pointer/tab":              `repo p; mkdir n; printf 'gitdir:\t../p\n' >n/.git; gitlink n`,
	"pointer/two spaces":       `repo p; mkdir n ' '; printf 'gitdir:  ../p\n' >n/.git; gitlink n`,
	"pointer/space behind":     `repo p; mkdir n; git init -q --bare 'x.git'; repo 'x.git '; printf 'gitdir: ../x.git \n' >n/.git; gitlink n`,
	"pointer/two lines":        `repo p; mkdir n; git init -q --bare x.git; printf 'gitdir: ../p\n/x.git' >n/.git; gitlink n`,
	"pointer/carriage return":  `repo p; mkdir n; printf 'gitdir: ../p\r\n' >n/.git; gitlink n`,
	"pointer/no line end":      `repo p; mkdir n; printf 'gitdir: ../p' >n/.git; gitlink n`,
	"pointer/a NUL":            `repo p; mkdir n; printf 'gitdir: ../p\0/.git\n' >n/.git; gitlink n`,
	"pointer/by rename":        `repo p; mkdir n; echo "gitdir: ../p" >g; mv g n/.git; gitlink n`,
	"pointer/by link":          `repo p; mkdir n; echo "gitdir: ../p" >g; ln g n/.git; gitlink n`,
	"pointer/linked, changed":  `repo p; mkdir n; echo "gitdir: ../bare.git" >g; ln g n/.git; echo "gitdir: ../p" >g; gitlink n`,
	"pointer/appended":         `repo x.gitp; mkdir n; printf 'gitdir: ../x.git' >n/.git; printf 'p\n' >>n/.git; gitlink n`,
	"pointer/symlink":          `repo p; mkdir n; echo "gitdir: ../p" >g; ln -s ../g n/.git; gitlink n`,
	"pointer/target changed":   `git init -q --bare x.git; mkdir n; echo "gitdir: ../x.git" >n/.git; rm -rf x.git; repo p; ln -s p x.git; gitlink n`,
	"pointer/parent changed":   `mkdir -p d/n; git init -q --bare d/x.git; echo "gitdir: ../x.git" >d/n/.git; mkdir -p e; repo e/p; mv d/n e/; mv e/p e/x.git; (cd e; gitlink n)`,
	"pointer/of the submodule": `repo p; echo "gitdir: ../p" >sub/.git`,
	"pointer/of the worktree":  `repo p; echo "gitdir: ../p" >wt/.git`,
	"pointer/sub moved":        `repo d/.git/modules/sub; mkdir d; mv sub d/sub; (cd d; git init -q; repo .git/modules/sub; gitlink sub)`,
	"pointer/to a git file":    `repo p; mkdir m n; echo "gitdir: ../p" >m/.git; echo "gitdir: ../m/.git" >n/.git; gitlink n`,
	"pointer/worktree's":       `git worktree add -q n; spoil .git/worktrees/n; echo ../../../p >.git/worktrees/n/commondir; repo p`,

	// What else git reads in a git directory.
	"inner/commondir":         `repo p; echo ../p >.git/commondir`,
	"inner/commondir modules": `repo p; echo ../../../p >.git/modules/sub/commondir`,
	"inner/commondir bare":    `repo p; echo ../p >bare.git/commondir`,
	"inner/commondir new":     `made n; repo p; echo ../../p >n/.git/commondir; gitlink n`,
	"inner/alternates":        `mkdir -p .git/objects/info; echo $HOST/../template/other/.git/objects >.git/objects/info/alternates; echo ../../../../../marks >.git/objects/info/alternates`,
	"inner/alternates new":    `made n; mkdir -p n/.git/objects/info; echo $MARKS >n/.git/objects/info/alternates`,
	"inner/remotes":           `mkdir -p .git/remotes .git/branches; echo "URL: ext::$mark" >.git/remotes/origin; echo "ext::$mark" >.git/branches/x; git config branch.main.remote x`,
	"inner/remotes of new":    `made n; mkdir -p n/.git/remotes n/.git/branches; printf 'URL: --upload-pack=%s\n' $mark >n/.git/remotes/origin; echo "ext::$mark" >n/.git/branches/origin; gitlink n`,
	"inner/attributes":        `echo '* filter=mark diff=mark merge=mark' >.gitattributes; mkdir -p .git/info; echo '* filter=mark diff=mark merge=mark' >.git/info/attributes`,
	"inner/lfs":               `echo '* filter=lfs diff=lfs merge=lfs' >.gitattributes; printf '[lfs]\n\turl = ssh://-oProxyCommand=%s/\n[lfs "customtransfer.x"]\n\tpath = %s\n' $mark $mark >.lfsconfig`,
	"inner/gitmodules":        `git config -f .gitmodules submodule.sub.update "!$mark"; git config -f .gitmodules submodule.sub.url "ext::$mark"; git add .gitmodules`,
	"inner/gitmodules names":  `git config -f .gitmodules submodule.../../x.path sub; git config -f .gitmodules submodule.../../x.url ../other; git add .gitmodules`,
	"inner/gitmodules path":   `git config -f .gitmodules submodule.sub.path -x; git config -f .gitmodules submodule.sub.url -u$mark; git add .gitmodules`,
	"inner/submodule config":  `git config submodule.sub.update "!$mark"; git config submodule.sub.url "ext::$mark"; git -C sub checkout -q HEAD~1`,
	"inner/core.worktree":     `git config core.worktree $HOST/..; git config core.worktree ../../..; git -C sub config core.worktree $HOST`,
	"inner/split index":       `git update-index --split-index; gitlink n; repo n/.git`,
	"inner/index link":        `cp .git/index i; rm .git/index; ln -s ../i .git/index; repo n/.git; gitlink n`,
	"inner/included":          `mkdir -p inc; cp $E/config inc/settings`,
	"inner/included by dir":   `mkdir j; cp $E/config j/settings; rmdir inc; mv j inc`,
	"inner/included by link":  `mkdir j; cp $E/config j/settings; rmdir inc; ln -s j inc`,
	"inner/absent by link":    `mkdir -p j/dir; cp $E/config j/dir/settings; ln -s j absent`,
	"inner/absent by rename":  `mkdir -p j/dir; cp $E/config j/dir/settings; mv j absent`,
	"inner/absent by copy":    `mkdir -p absent/dir; cp $E/config absent/dir/settings`,
	"inner/absent below":      `mkdir -p absent j; cp $E/config j/settings; ln -s ../j absent/dir`,
	"inner/hooksPath by link": `mkdir j; cp $E/hooks/* j/; ln -s j absenthooks; git -C sub log -1`,
	"inner/included top":      `repo p; cp $E/config settings; ln -s ../settings inc/settings`,
	"inner/svn":               `mkdir -p .git/svn; git config -f .git/svn/.metadata svn-remote.svn.reposRoot svn+x://h; git config svn.authorsProg $mark`,
	"inner/annex":             `git config annex.pre-commit-command $mark; git config remote.origin.annex-start-command $mark`,
	"inner/objects a link":    `made n; mv n/.git/objects n/o; ln -s $MARKS n/.git/objects; gitlink n`,

	// Lists of commands.
	"todo/begun inside":        `export GIT_SEQUENCE_EDITOR="sh -c 'printf \"break\nexec $mark\n\" >\"\$0\"'"; git rebase -i HEAD~1`,
	"todo/--exec":              `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i --exec $mark HEAD~1`,
	"todo/edit-todo":           `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; export GIT_SEQUENCE_EDITOR="sh -c 'echo x $mark >>\"\$0\"'"; git rebase --edit-todo`,
	"todo/appended":            `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >>.git/rebase-merge/git-rebase-todo`,
	"todo/conflict, appended":  `git rebase -q side; echo "  x $mark" >>.git/rebase-merge/git-rebase-todo; git checkout -q --theirs . ; git add -A`,
	"todo/renamed onto":        `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >t; mv t .git/rebase-merge/git-rebase-todo`,
	"todo/linked":              `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >t; rm .git/rebase-merge/git-rebase-todo; ln t .git/rebase-merge/git-rebase-todo`,
	"todo/symlinked":           `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >t; rm .git/rebase-merge/git-rebase-todo; ln -s ../../t .git/rebase-merge/git-rebase-todo`,
	"todo/linked, changed":     `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; ln .git/rebase-merge/git-rebase-todo t; echo "exec $mark" >>t`,
	"todo/in pieces":           `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; printf e >>.git/rebase-merge/git-rebase-todo; printf "xec $mark\n" >>.git/rebase-merge/git-rebase-todo`,
	"todo/directory renamed":   `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; cp -r .git/rebase-merge m; echo "exec $mark" >>m/git-rebase-todo; mv .git/rebase-merge o; mv m .git/rebase-merge`,
	"todo/directory made":      `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; cp -r .git/rebase-merge m; git rebase --quit; echo "exec $mark" >>m/git-rebase-todo; cp -r m .git/rebase-merge; git rev-parse HEAD >.git/REBASE_HEAD`,
	"todo/directory linked":    `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; mv .git/rebase-merge m; echo "exec $mark" >>m/git-rebase-todo; ln -s ../m .git/rebase-merge`,
	"todo/carriage returns":    `export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; printf "\r\t exec\t$mark\r\n" >>.git/rebase-merge/git-rebase-todo`,
	"todo/instruction format":  `git config rebase.instructionFormat "%s%nexec $mark"; export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1`,
	"todo/in the worktree":     `cd wt; export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >>../.git/worktrees/wt/rebase-merge/git-rebase-todo`,
	"todo/in the submodule":    `cd sub; export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >>../.git/modules/sub/rebase-merge/git-rebase-todo`,
	"todo/in a new repository": `git clone -q bare.git n; cd n; export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >>.git/rebase-merge/git-rebase-todo`,
	"todo/sequencer":           `git cherry-pick side; echo "exec $mark" >>.git/sequencer/todo; mkdir -p .git/sequencer; printf 'exec %s\n' $mark >>.git/sequencer/todo; printf '[options]\n\tgpg-sign = x\n\tstrategy = x\n' >.git/sequencer/opts`,
	"todo/strategy":            `git rebase -q side; echo mark >.git/rebase-merge/strategy; echo "--exec=$mark" >.git/rebase-merge/strategy_opts`,
	"todo/am":                  `mkdir -p .git/rebase-apply; for f in applying sign utf8 keep messageid scissors quiet threeway; do echo t >.git/rebase-apply/$f; done; echo 1 >.git/rebase-apply/next; echo 1 >.git/rebase-apply/last; for o in "--directory=/ $mark" " '--directory=/' '--build-fake-ancestor=$PWD/.git/HEAD'"; do echo "$o" >.git/rebase-apply/apply-opt; echo "$o" >t; mv t .git/rebase-apply/apply-opt; done; git format-patch -1 --stdout >.git/rebase-apply/0001`,
	"todo/bisect":              `git bisect start HEAD HEAD~1; echo "git bisect good; $mark" >>.git/BISECT_LOG; echo "'; $mark; '" >.git/BISECT_NAMES; echo "--exec=$mark" >.git/BISECT_START; echo "$mark" >.git/BISECT_RUN`,
	"todo/host began":          `echo "exec $mark" >>begun/.git/rebase-merge/git-rebase-todo; echo "exec $mark" >t; mv t begun/.git/rebase-merge/git-rebase-todo; rm -rf begun/.git/rebase-merge/git-rebase-todo; echo "exec $mark" >begun/.git/rebase-merge/git-rebase-todo`,
	"todo/host began, renamed": `cp -r begun/.git/rebase-merge m; echo "exec $mark" >m/git-rebase-todo; mv begun/.git/rebase-merge o; mv m begun/.git/rebase-merge`,
	"todo/host began, both":    `cd begun; git rebase --quit; export GIT_SEQUENCE_EDITOR="sed -i 1ibreak"; git rebase -i HEAD~1; echo "exec $mark" >>.git/rebase-merge/git-rebase-todo`,
}

// each has a script run at the top of a rig and in each directory of it that looks like
// a repository. Those that were there are left out, unless the attack names them.
func each(attack, script string) string {
	var b strings.Builder
	b.WriteString(`for d in . $(find . -path '*/.git/*' -prune`)
	for _, known := range []string{"sub", "wt", "bare"} {
		if attack != "" && !strings.Contains(attack, known) {
			b.WriteString(" -o -path './" + known + "*' -prune")
		}
	}
	b.WriteString(` -o \( -name .git -o -name HEAD \) -printf '%h\n' | sort -u); do
	test -d "$d" && cd "$d" || continue
` + script + `
	cd "$OLDPWD"
done`)
	return b.String()
}

// everyday are commands of the host.
const everyday = `
	git status --porcelain=2 --branch
	git diff HEAD
	test ! -d "$(git rev-parse --git-path rebase-merge)" || git rebase --continue
	git commit -q --allow-empty -m x
	git log -1 -p`

// workday are more of them.
const workday = everyday + `
	git add -N .
	git fetch -q
	git submodule status
	git rebase --continue
	git rev-parse --git-dir --is-inside-git-dir --is-bare-repository --is-inside-work-tree --short HEAD
	git symbolic-ref HEAD
	git diff --no-ext-diff --quiet
	git diff --no-ext-diff --cached --quiet
	git rev-list --count --left-right @{upstream}...HEAD
	git stash list
	git status
	git -c color.ui=always diff
	git diff --cached
	git diff HEAD~1
	git log -p -3
	git log --show-signature -1
	git show
	git describe --all
	git blame a
	git grep x
	git ls-files -s -o
	git worktree list
	git bisect start HEAD HEAD~1
	git bisect run true
	git bisect reset
	git archive HEAD | wc -c
	echo more >>a.f
	git stash
	git stash pop
	git add .
	git commit -m y
	git commit --amend --allow-empty --no-edit
	git checkout -q -b n1
	git switch -q -c n2
	git switch -q main
	git merge -m z side
	git merge --abort
	git am --continue
	git cherry-pick --continue
	git push -q origin HEAD:refs/heads/pushed-$$
	git pull -q
	git remote update
	git submodule update --init
	git submodule summary
	git submodule foreach git status
	git gc -q
	git clone -q . "${TMPDIR:-/tmp}/clone-$$" && rm -rf "${TMPDIR:-/tmp}/clone-$$"`

// begun is a rig in which the host has begun a rebase.
const begun = `cp -a . ../begun-$$ && mv ../begun-$$ begun && cd begun && git rebase -q side; exit 0`

// TestAttacks has the inside try to take over what the host's git believes, and the host
// look and work.
func TestAttacks(t *testing.T) {
	var names []string // a sample has some of each group, since they are in order
	for i, name := range slices.Sorted(maps.Keys(attacks)) {
		if picked(i) {
			names = append(names, name)
		}
	}
	rig := func(i int) string { return fmt.Sprintf("attack%03d", i) }
	lives(t, func(t *testing.T, host string, m marks) {
		r := newRigging(t, host)
		for i, name := range names {
			r.copies(t, rig(i))
			if strings.Contains(name, "host began") {
				sh(t, filepath.Join(host, rig(i)), begun)
			}
		}
		evil(t, host, m)
	}, func(t *testing.T, c *inside) {
		got, tried := tally{}, 0
		said, found := map[string]string{}, map[string]string{}
		var days []day
		var group sync.WaitGroup
		var mu sync.Mutex
		places := make(chan struct{}, 3)
		for i, name := range names {
			if wanted(name) {
				group.Go(func() {
					places <- struct{}{}
					out := c.run(t, rig(i), prelude+attacks[name])
					<-places
					mu.Lock()
					said[name] = out
					mu.Unlock()
				})
			}
		}
		group.Wait()
		for i, name := range names {
			if !wanted(name) {
				continue
			}
			tried++
			found[name] = c.host(t, order{Do: "look", Dir: rig(i)}) + c.host(t, order{Do: "lost", Dir: rig(i)})
			script := each(attacks[name], everyday)
			if i%10 == 0 || testenv.Full() {
				script = each("", workday)
			}
			days = append(days, day{rig(i), script})
		}
		c.host(t, order{Do: "marks"}) // of what ran inside
		did := c.work(t, days)
		left := c.host(t, order{Do: "marks"})
		for i, name := range names {
			group, what, _ := strings.Cut(name, "/")
			mine := linesWith(left, "/"+rig(i))
			if found[name] != "" || mine != "" {
				got.add(group, strings.ReplaceAll(fmt.Sprintf("%s: %s", what, shorten(found[name], mine)), rig(i), "."))
			}
			if os.Getenv(onlyVariable) != "" && wanted(name) {
				t.Logf("%s: inside:\n%.2000s\non the host:\n%.3000s\n%s%s", name, said[name], did[rig(i)], found[name], mine)
			}
		}
		got.report(t, tried)
	})
}

// linesWith returns the lines of a text with some word in them.
func linesWith(text, word string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line+"/", word+"/") || strings.Contains(line, word+":") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// shorten says what was found, and what ran, in few words.
func shorten(found, left string) string {
	var said []string
	for line := range strings.Lines(found) {
		said = append(said, strings.TrimSpace(line))
	}
	ran := map[string]bool{}
	for line := range strings.Lines(left) {
		name, _, _ := strings.Cut(line, " in ")
		ran[name] = true
	}
	slices.Sort(said)
	if len(said) > 3 {
		said = append(said[:3], fmt.Sprintf("and %d more", len(said)-3))
	}
	if len(ran) > 0 {
		said = append(said, fmt.Sprint("ran ", slices.Sorted(maps.Keys(ran))))
	}
	return strings.Join(said, ", ")
}
