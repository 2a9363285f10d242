package gitsync

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/test/testenv"
)

// TestMain gives git on both sides the same surroundings on each machine.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GIT_") {
			_ = os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "LC_ALL": "C", "HOME": "/nonexistent", "EDITOR": "true"} {
		_ = os.Setenv(name, value)
	}
	code := m.Run()
	if dir := made.Load(); dir != nil {
		_ = rmtree.RemovePath(filepath.Split(*dir))
	}
	os.Exit(code)
}

var author = []string{
	"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x",
	"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000", "GIT_MERGE_AUTOEDIT=no",
}

const baseScript = `git init -q -b main .; mkdir src; for f in a b c; do echo $f >src/$f; done; printf '1\n2\n3\n4\n5\n6\n7\n8\n' >n; git add -A; git commit -qm c1; git tag v1
echo c2 >>src/c; git commit -qam c2; git checkout -qb topic v1; echo t >src/t; git add -A; git commit -qm t1; echo t2 >>src/t; git commit -qam t2
git checkout -q main; echo c3 >src/d; git add -A; git commit -qm c3`

// A world is a repository of the host, and sandboxes that share its working tree.
type world struct {
	t     testing.TB
	root  string
	repo  string // the working tree
	boxes []*box
	last  Report
	err   error
}

// A box is one sandbox: a private git directory over the host's working tree, with the real git.
type box struct {
	pair *Pair
	env  []string
	dir  string
}

// made is the directory of template.
var made atomic.Pointer[string]

var template = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gitsync-")
	if err != nil {
		return "", err
	}
	made.Store(&dir)
	return dir, shell(dir, nil, baseScript).err
})

type result struct {
	out string
	err error
}

// shell runs a script.
func shell(dir string, env []string, script string) result {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(append(os.Environ(), author...), env...), time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return result{out.String(), errors.Join(err, errors.New(script+"\n"+out.String()+said.String()))}
	}
	return result{out.String(), nil}
}

func newWorld(t *testing.T, boxes int) *world {
	t.Helper()
	t.Parallel()
	return makeWorld(t, boxes)
}

func makeWorld(t testing.TB, boxes int) *world {
	t.Helper()
	testenv.Tools(t, "git")
	from, err := template()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: t.TempDir()}
	w.repo = filepath.Join(w.root, "repo")
	if out, err := exec.Command("cp", "-a", from, w.repo).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	w.host("git update-index -q --refresh")
	for _, name := range []string{"box", "box1"}[:boxes] {
		w.add(name, filepath.Join(w.repo, ".git"))
	}
	return w
}

// add makes a sandbox over a git directory of the host, in the place of an earlier one of that
// name.
func (w *world) add(name, gitDir string) *box {
	w.t.Helper()
	dir := filepath.Join(w.root, name)
	b := &box{dir: dir}
	private := filepath.Join(dir, "git")
	pin(w.t, gitDir, private)
	b.env = []string{"GIT_DIR=" + private, "GIT_WORK_TREE=" + w.repo}
	b.pair = &Pair{Host: gitDir, Worktree: w.repo, Private: private, State: filepath.Join(dir, "state"), Dir: w.repo, Name: name}
	b.pair.Inside = plain{w.repo, b.env}
	if err := Begin(private, b.pair.State); err != nil {
		w.t.Fatal(err)
	}
	w.boxes = append(w.boxes, b)
	return b
}

// only makes a sandbox over a git directory, in the place of all others.
func (w *world) only(name, gitDir string) {
	w.t.Helper()
	w.boxes = nil
	w.add(name, gitDir)
}

// pin copies a git directory as the tree server does.
func pin(t testing.TB, gitDir, private string) {
	t.Helper()
	common := gitDir
	if b, err := os.ReadFile(filepath.Join(gitDir, "commondir")); err == nil {
		common = filepath.Join(gitDir, strings.TrimSpace(string(b)))
	}
	script := `mkdir -p "$P/objects/info" "$P/objects/pack" "$P/host/0" "$P/logs/refs"
for f in packed-refs config info refs hooks; do [ ! -e "$C/$f" ] || cp -a "$C/$f" "$P/"; done
for f in "$C"/logs/refs/heads "$C"/logs/refs/stash; do [ ! -e "$f" ] || cp -a "$f" "$P/logs/refs/"; done
[ ! -e "$G/logs/HEAD" ] || cp -a "$G/logs/HEAD" "$P/logs/"
for f in HEAD ORIG_HEAD index MERGE_HEAD MERGE_MSG MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply sequencer BISECT_LOG config.worktree shallow; do
[ ! -e "$G/$f" ] || cp -a "$G/$f" "$P/"; done
[ ! -e "$C/shallow" ] || cp -a "$C/shallow" "$P/"
cp -a "$G"/sharedindex.* "$P/" 2>/dev/null
ln -s "$C/objects" "$P/host/0/objects"; echo ../host/0/objects >"$P/objects/info/alternates"
find "$P" -name '*.lock' -delete`
	if r := shell("/", []string{"P=" + private, "G=" + gitDir, "C=" + common}, script); r.err != nil {
		t.Fatal(r.err)
	}
}

// A plain runs programs in a plain directory.
type plain struct {
	dir string
	env []string
}

func (p plain) Run(ctx context.Context, args []string, in io.Reader, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, append(append(os.Environ(), author...), p.env...), time.Second
	cmd.Stdin, cmd.Stdout = in, out
	if os.Getenv("GITSYNC_TRACE") != "" {
		cmd.Stderr = os.Stderr
	}
	err := cmd.Run()
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.Exited() {
		return failed.ExitCode(), nil
	} else if err != nil {
		return -1, err
	}
	return 0, nil
}

// host runs a script on the host, which must succeed.
func (w *world) host(script string) string {
	w.t.Helper()
	r := shell(w.repo, nil, script)
	if r.err != nil {
		w.t.Fatal("host: ", r.err)
	}
	return strings.TrimSpace(r.out)
}

// try runs a script on the host.
func (w *world) try(script string) string { return strings.TrimSpace(shell(w.repo, nil, script).out) }

// in runs a script in the first sandbox.
func (w *world) in(script string) string { return w.at(0, script) }

func (w *world) at(n int, script string) string {
	return strings.TrimSpace(shell(w.repo, w.boxes[n].env, script).out)
}

// must runs a script in the first sandbox, which must succeed.
func (w *world) must(script string) string {
	w.t.Helper()
	r := shell(w.repo, w.boxes[0].env, script)
	if r.err != nil {
		w.t.Fatal("inside: ", r.err)
	}
	return strings.TrimSpace(r.out)
}

// sync is a sync of the first sandbox, which must not fail.
func (w *world) sync() Report { w.t.Helper(); return w.syncAt(0) }

func (w *world) syncAt(n int) Report {
	w.t.Helper()
	w.last, w.err = w.boxes[n].pair.Sync(w.t.Context())
	if w.err != nil {
		w.t.Fatal("sync: ", w.err)
	}
	return w.last
}

func (w *world) said() string { return strings.Join(slices.Concat(w.last.Said, w.last.Stays), "\n") }

func (w *world) says(part string) {
	w.t.Helper()
	if !strings.Contains(w.said(), part) {
		w.t.Errorf("it says %q, want %q in it", w.said(), part)
	}
}

func (w *world) equal(got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("got %q, want %q\nit said %q", got, want, w.said())
	}
}

// rev returns the commit of a revision on the host, and revIn inside; "" if it does not exist.
func (w *world) rev(r string) string   { return w.try("git rev-parse -q --verify " + r) }
func (w *world) revIn(r string) string { return w.in("git rev-parse -q --verify " + r) }

// follows checks that both sides have a reference at the same commit.
func (w *world) follows(refs ...string) {
	w.t.Helper()
	for _, r := range refs {
		if host, in := w.rev(r), w.revIn(r); host != in || host == "" {
			w.t.Errorf("%s is at %q on the host and at %q inside; it said %q", r, host, in, w.said())
		}
	}
}

// clean checks that both sides have nothing to commit.
func (w *world) clean() {
	w.t.Helper()
	w.equal(w.host("git status --porcelain"), "")
	w.equal(w.must("git status --porcelain"), "")
}

const lookScript = `git symbolic-ref -q HEAD || git rev-parse HEAD; git for-each-ref --format='%(refname) %(objectname)' refs/heads refs/tags refs/notes; git for-each-ref refs/wolffia
git status --porcelain; git ls-files -s; git stash list --format=%gs; git fsck --strict --no-dangling 2>&1`

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
