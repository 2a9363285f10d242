package gitdiff

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// tools is where the other gits are in the codebase.
const tools = ".tools"

// readers print what testdata/look.sh prints, each with a git of its own.
var readers = map[string]string{
	"go-git":  tools + "/gogit look",
	"libgit2": "python3 -B " + tools + "/libgit2.py look",
}

// Row 67: go-git and libgit2 read on both sides what git reads there, and what they commit on one side is on the other one.
func TestOtherGits(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	otherGits(t, "bwrap")
}

func TestOtherGitsInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	otherGits(t, "gvisor")
}

func otherGits(t *testing.T, backend string) {
	t.Parallel()
	testenv.Unprivileged(t)
	testenv.Tools(t, "git", "go", "python3")
	h := newHost(t)
	h.env = append(h.env, "PYTHONPATH="+tools+"/py")
	wolffia, repo := filepath.Join(testbin.Dir(t), "wolffia"), filepath.Join(h.home, "repo")
	if err := os.MkdirAll(filepath.Join(repo, tools), 0o755); err != nil {
		t.Fatal(err)
	}
	installGits(t, filepath.Join(repo, tools))
	h.says(t, repo, "sh", "-eu", "-c", Head+`git init -q -b main; echo `+tools+` >.gitignore; mkdir d; for f in a b c d/x; do echo $f >$f; done; ln -s a l; git add -A; commit 1 -m one
git tag -a -m note v1; git checkout -q -b topic; echo t >t; git add t; commit 2 -m topic; git checkout -q main; git gc -q; git config user.name Ann; git config user.email ann@example.invalid`)
	h.says(t, repo, wolffia, "create", "--runtime", backend, "--name", "box")
	t.Cleanup(func() { h.says(t, repo, wolffia, "rm", "-f", "box") })
	in := func(script string) string {
		return h.says(t, repo, wolffia, "exec", "-e", "PYTHONPATH="+tools+"/py", "box", "--", "sh", "-euc", script)
	}
	out := func(script string) string { return h.says(t, repo, "sh", "-euc", script) }
	for _, work := range []struct{ name, script string }{
		{"nothing", ":"},
		{"commits", `echo x >>a; git commit -qam x; git tag light; git notes add -m n; git branch other v1; git mv b e; git commit -qm moved`},
		{"merge and rebase", `git merge -q --no-edit topic; git checkout -q topic; git rebase -q main; git commit -q --allow-empty -m more; git checkout -q -b third main; git reset -q --hard HEAD~1`},
		{"pack", `git pack-refs --all; git gc -q; git checkout -q main; git branch -qD topic; git tag -d light`},
		{"staged", `echo y >>a; git add a; echo z >>c; rm d/x; echo n >n; git add n; echo u >u; chmod +x e; git rm -q t`},
		{"go-git", `git stash -qu; git stash drop -q; ` + tools + `/gogit commit g; git log -1 --format=%s`},
		{"libgit2", `python3 -B ` + tools + `/libgit2.py commit k; git log -1 --format=%s`},
	} {
		in(work.script)
		var seen [2]string
		for i, side := range []func(string) string{out, in} {
			seen[i] = side("sh " + tools + "/look.sh")
			for name, read := range readers {
				if diff := cmp.Diff(seen[i], side(read)); diff != "" {
					t.Errorf("%s, %s on side %d: -git +%s:\n%s", work.name, name, i, name, diff)
				}
			}
		}
		if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
			t.Errorf("%s: -host +inside:\n%s", work.name, diff)
		}
	}
	out(tools + `/gogit commit h; python3 -B ` + tools + `/libgit2.py commit i`)
	if got := in("git log -4 --format=%s; git status --porcelain; git fsck --strict --no-dangling"); got != "i\nh\nk\ng\n" {
		t.Errorf("inside, git says %q", got)
	}
	if got := out("git log -4 --format='%s %cn'; git status --porcelain; git fsck --strict --no-dangling"); got != "i libgit2\nh go-git\nk libgit2\ng go-git\n" {
		t.Errorf("git says %q", got)
	}
}

// installGits puts go-git and libgit2 into a directory. What it fetches is kept beside the cache of go's builds.
func installGits(t *testing.T, dir string) {
	t.Helper()
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-modcacherw")
	if cache := os.Getenv("GOCACHE"); cache != "" {
		cache = filepath.Dir(cache)
		env = append(env, "GOMODCACHE="+filepath.Join(cache, "go-mod"), "PIP_CACHE_DIR="+filepath.Join(cache, "pip"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for _, c := range []struct {
		lack, dir string
		args      []string
	}{
		{"the proxy of Go's modules", filepath.Join(here, "gogit"), []string{"go", "build", "-o", filepath.Join(dir, "gogit"), "."}},
		{"the package index of Python", here, []string{
			"python3", "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes", "-r", "requirements.txt", "--target", filepath.Join(dir, "py"),
		}},
	} {
		cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
		cmd.Dir, cmd.Env = c.dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			testenv.Lacks(t, c.lack, err.Error()+"\n"+string(out))
		}
	}
	for _, name := range []string{"look.sh", "libgit2.py"} {
		text, err := os.ReadFile(filepath.Join(here, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
