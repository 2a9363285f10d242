package gitmodel

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

//go:embed actor.py
var actorProgram string

// An actor works in a directory: one of the host's, or a sandbox's.
type actor struct {
	name string
	in   io.WriteCloser
	out  *bufio.Reader
	end  func()
}

func act(t *testing.T, name string, cmd *exec.Cmd) *actor {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &actor{name: name, in: in, out: bufio.NewReader(out), end: func() {
		_ = in.Close()
		_ = cmd.Wait()
	}}
}

// does has a do something, and returns the answer.
func (a *actor) does(t *testing.T, op ...any) string {
	t.Helper()
	line, err := json.Marshal(op)
	if err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(wait.Limit, func() { _ = a.in.Close() }) // its end ends the read
	defer guard.Stop()
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("%s: %s: %v", a.name, line, err)
	}
	answer, err := a.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %s: %v", a.name, line, err)
	}
	var text any
	if err := json.Unmarshal([]byte(answer), &text); err != nil {
		t.Fatalf("%s: %q: %v", a.name, answer, err)
	}
	s, _ := text.(string)
	return s
}

// A model is two sandboxes over one codebase, and the host.
type model struct {
	t       *testing.T
	r       *rand.Rand
	wolffia string
	env     []string
	repo    string
	host    *actor
	inside  [2]*actor
	id      string // of the first one's sandbox
	step    int
	hidden  bool // a rule hides a file
	said    []string
}

func (m *model) command(name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	m.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = m.repo, m.env
	return cmd
}

func (m *model) run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.command(name, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s %q: got err %v, out %s; want err == nil", name, args, err, out)
	}
	return string(out)
}

func newModel(t *testing.T, backend string, seed uint64) *model {
	testenv.Unprivileged(t)
	testenv.Tools(t, "git", "python3")
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &model{
		t: t, r: rand.New(rand.NewPCG(seed, 1)), wolffia: filepath.Join(testbin.Dir(t), "wolffia"), repo: filepath.Join(home, "repo"),
		env: []string{
			"HOME=" + home, "PATH=" + os.Getenv("PATH"), "WOLFFIA_STATE_DIR=" + filepath.Join(home, "state"), "GIT_CONFIG_NOSYSTEM=1", "WOLFFIA_GIT_MONITOR=1",
			"LANG=C.UTF-8", "TZ=UTC", "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"),
		},
	}
	const config = "[user]\n\tname = a\n\temail = a@example.invalid\n[init]\n\tdefaultBranch = main\n[core]\n\texcludesFile = ~/ignored\n"
	for name, text := range map[string]string{".gitconfig": config, "ignored": "*.tmp\n", "repo/.gitignore": "*.log\n"} {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.run("sh", "-ec", `git init -q .
for d in . a a/b a/b/c d e/f; do mkdir -p $d; for f in 0 1 2 3; do echo $d $f >$d/f$f; done; done
git add .; git commit -qm one; git checkout -q -b other; echo other >a/f0; rm d/f1; echo o >d/f9; git add .; git commit -qm other; git checkout -q main
find . -path ./.git -prune -o -exec touch -h -d 2001-01-01 '{}' + # before the second in which git writes its index
git update-index -q --refresh`)
	for i := range m.inside {
		id := m.run(m.wolffia, "create", "--runtime", backend, "--name", fmt.Sprint("box", i))
		m.id = cmp.Or(m.id, strings.TrimSpace(id))
		m.enter(i)
	}
	m.host = act(t, "host", m.command("python3", "-u", "-c", actorProgram))
	t.Cleanup(func() {
		m.host.end()
		for i, a := range m.inside {
			a.end()
			m.run(m.wolffia, "rm", "-f", fmt.Sprint("box", i))
		}
		m.run("chmod", "-R", "u+rwX", ".") // some modes keep even us from removing it
	})
	return m
}

// enter starts the actor of a sandbox.
func (m *model) enter(i int) {
	name := fmt.Sprint("box", i)
	m.inside[i] = act(m.t, name, m.command(m.wolffia, "exec", "-i", name, "--", "python3", "-u", "-c", actorProgram))
}

// signal signals the tree server of the first sandbox.
func (m *model) signal(s syscall.Signal) {
	m.t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file)
		if !strings.HasPrefix(string(line), "wolffia\x00tree\x00"+m.id) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			err = syscall.Kill(pid, s)
		}
		if err != nil {
			m.t.Fatal(err)
		}
		return
	}
	m.t.Fatalf("the tree server of %q is not there", m.id)
}

// restart starts the first sandbox again; meanwhile is done before. kill ends its tree server, and so the sandbox,
// at once.
func (m *model) restart(kill bool, meanwhile func()) {
	m.t.Helper()
	if kill {
		m.signal(syscall.SIGKILL)
	}
	m.inside[0].end()
	m.run(m.wolffia, "stop", "box0") // which waits for the end of one that is killed
	meanwhile()
	m.run(m.wolffia, "start", "box0")
	m.enter(0)
}

func (m *model) pick(some ...string) string { return some[m.r.IntN(len(some))] }

// name returns a name, most often of a file that is tracked.
func (m *model) name() string {
	dir := m.pick("", "a/", "a/b/", "a/b/c/", "d/", "e/f/", "new/", "a/new/")
	return dir + m.pick("f0", "f1", "f2", "f3", "f0", "f1", "f9", "F1", "n.tmp", "n.log", ".env", ".gitignore", "-", "ä")
}

func (m *model) dir() string {
	return m.pick("a", "a/b", "a/b/c", "d", "e", "e/f", "new", "a/new", "D", "moved")
}

// op returns a random operation on files, or of git's.
func (m *model) op() []any {
	text := m.pick("x\n", "y\n", "0\n", "*.log\nf9\n", "longer than that\n") + m.pick("", strconv.Itoa(m.step))
	switch m.r.IntN(30) {
	case 0, 1:
		return []any{"write", m.name(), text}
	case 2:
		return []any{"append", m.name(), text}
	case 3, 4:
		return []any{"over", m.name(), text}
	case 5:
		return []any{"replace", m.name(), text}
	case 6:
		return []any{"same", m.name(), text}
	case 7:
		return []any{"store", m.name(), text}
	case 8:
		return []any{"unmap"}
	case 9:
		return []any{"truncate", m.name(), m.r.IntN(9)}
	case 10:
		return []any{"chmod", m.name(), []int{0o644, 0o755, 0o700, 0o600}[m.r.IntN(4)]}
	case 11:
		return []any{"touch", m.name(), 1e9 + float64(m.r.IntN(3))}
	case 12:
		return []any{"link", m.name(), m.name()}
	case 13:
		return []any{"symlink", m.pick("f0", "nothing", "../a"), m.name()}
	case 14, 15:
		return []any{"unlink", m.name()}
	case 16:
		return []any{"mkdir", m.dir()}
	case 17:
		return []any{"rmdir", m.dir()}
	case 18:
		return []any{"rename", m.name(), m.name()}
	case 19:
		return []any{"rename", m.dir(), m.dir()}
	case 20:
		return []any{"nest", m.dir()}
	case 21, 22:
		return []any{"git", "add", "-A"}
	case 23:
		return []any{"git", "add", m.name()}
	case 24:
		return []any{"git", "commit", "-qam", "m"}
	case 25:
		return []any{"git", "checkout", "-q", "-f", m.pick("main", "other")}
	case 26:
		return []any{"git", "checkout", "-q", "--", m.pick(".", m.name())}
	case 27:
		return []any{"git", "rm", "-q", "--cached", m.name()}
	case 28:
		return []any{"git", m.pick("stash", "reset", "gc"), "-q"}
	}
	return []any{"git", "update-index", m.pick("--refresh", "--really-refresh", "--index-version=4", "--split-index", "--no-split-index")}
}

// turn does one step, by one of the three, and compares.
func (m *model) turn() {
	m.step++
	op := m.op()
	who := m.inside[0]
	switch m.r.IntN(20) {
	case 0, 1, 2, 3, 4:
		who = m.host
	case 5, 6, 7:
		who = m.inside[1]
	}
	switch m.r.IntN(300) {
	case 0: // other rules
		m.hidden = !m.hidden
		if m.hidden {
			m.note("hide a/f1")
			m.run(m.wolffia, "policy", "add", "box0", "--reveal", "/a/f1=none")
		} else {
			m.note("show a/f1")
			m.run(m.wolffia, "policy", "add", "box0", "--reveal", "/a/f1=write")
		}
	case 1:
		kill := m.r.IntN(2) == 0
		m.note("restart", kill)
		m.restart(kill, func() { m.note(m.host.name, op, m.host.does(m.t, op...)) })
	case 2:
		m.note("burst")
		m.host.does(m.t, "write", "d/burst", "x")
		m.host.does(m.t, "write", "d/burst2", "x")
		m.host.does(m.t, "burst", "d/burst", 20_000)
	default:
		m.note(who.name, op, who.does(m.t, op...))
		if who == m.host && op[0] == "store" { // until then the change is missed inside
			who.does(m.t, "unmap")
		}
	}
	if who == m.host && op[0] == "git" {
		m.run(m.wolffia, "exec", "box0", "--", "true") // what the host's git has done is inside after it
	}
	if got := m.inside[0].does(m.t, "compare"); got != "same" {
		m.t.Fatalf("step %d: %s\nthe last steps:\n%s\ninside:\n%s\non the host:\n%s", m.step, got,
			strings.Join(m.said[max(0, len(m.said)-100):], "\n"), m.inside0("facts"), m.host.does(m.t, "facts"))
	}
}

func (m *model) note(all ...any) {
	m.said = append(m.said, fmt.Sprintf("%d %.300s", m.step, fmt.Sprint(all...)))
}

func (m *model) turns(n int) {
	for range n {
		m.turn()
	}
}

func seed(t *testing.T) uint64 {
	s := rand.Uint64()
	if text := os.Getenv("WOLFFIA_TEST_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("WOLFFIA_TEST_SEED=%d", s)
	return s
}

// What the model meets seldom.
var scenarios = []struct {
	name string
	do   func(m *model)
}{
	{"a repository comes and goes in a directory that is there", func(m *model) {
		for _, dir := range []string{"d", "empty"} {
			m.inside0("mkdir", dir)
			m.inside0("git", "status")
			m.inside0("nest", dir)
			m.inside0("git", "status")
			m.run(m.wolffia, "exec", "box0", "--", "rm", "-rf", dir+"/.git")
			m.same()
		}
	}},
	{"a change in the second in which git has written the index, with the time and the size of before", func(m *model) {
		for i := range 5 {
			m.inside0("over", "a/f1", fmt.Sprint(i, "0000000"))
			m.inside0("git", "add", "a/f1")
			m.inside0("git", "status") // git has it from the monitor now
			m.inside0("same", "a/f1", fmt.Sprint(i, "1111111"))
			m.same()
		}
	}},
	{"a change by a name elsewhere", func(m *model) {
		out := filepath.Join(filepath.Dir(m.repo), "out")
		m.host.does(m.t, "link", "a/f1", out)
		m.host.does(m.t, "over", out, "x")
		wait.Equal(m.t, "a change by a link that is newer than the last look", "same", func() string { return m.inside0("compare") })
		for i := range 3 {
			m.host.does(m.t, "over", out, fmt.Sprint(i))
			m.same()
		}
	}},
	{"a rule that hides an untracked name, and one that shows it", func(m *model) {
		m.host.does(m.t, "write", "a/u", "x")
		m.same()
		m.run(m.wolffia, "policy", "add", "box0", "--reveal", "/a/u=none")
		m.same()
		m.run(m.wolffia, "policy", "add", "box0", "--reveal", "/a/u=write")
		m.same()
	}},
	{"a directory in the place of another", func(m *model) {
		m.inside0("git", "status")
		m.host.does(m.t, "rename", "a", "moved")
		m.same()
		m.host.does(m.t, "mkdir", "a/b")
		m.host.does(m.t, "write", "a/b/f0", "other")
		m.same()
		m.host.does(m.t, "write", "moved/b/f0", "x")
		m.host.does(m.t, "write", "a/b/f1", "x")
		m.same()
	}},
	{"another directory in the place of a repository below", func(m *model) {
		m.run("sh", "-ec", "for d in sub other; do mkdir -p $d/x; echo $d >$d/x/f; echo $d >$d/f; done; git init -q sub; git -C sub add .; git -C sub commit -qm sub; touch -d 2001-01-01 sub/f sub/x/f; git -C sub update-index --refresh")
		m.sameIn("sub")
		m.run("sh", "-ec", "mv sub old; mv other sub; mv old/.git sub/.git")
		m.sameIn("sub")
		m.host.does(m.t, "write", "sub/f", "changed")
		m.host.does(m.t, "write", "sub/x/new", "x")
		m.sameIn("sub")
	}},
	{"another repository over the same files", func(m *model) {
		m.inside0("git", "init", "-q", "--bare", "/tmp/other")
		m.inside0("git", "--git-dir=/tmp/other", "--work-tree=.", "add", "a/f1", "a/f2")
		m.inside0("git", "--git-dir=/tmp/other", "--work-tree=.", "status")
		m.inside0("write", "a/f1", "changed")
		m.inside0("write", "only", "x")
		m.inside0("git", "add", "a/f1")
		if got := m.inside0("compare", "--git-dir=/tmp/other", "--work-tree=."); got != "same" {
			m.t.Fatal(got)
		}
	}},
	{"the tree server is killed, and the sandbox stopped", func(m *model) {
		for i := range 4 {
			m.inside0("over", "a/f1", fmt.Sprint(i))
			m.same()
			m.inside0("over", "a/b/f1", fmt.Sprint(i))
			m.restart(i%2 == 0, func() { m.host.does(m.t, "over", "d/f1", fmt.Sprint(i)) })
			m.same()
		}
	}},
	{"more changes than the kernel keeps", func(m *model) {
		m.same()
		m.signal(syscall.SIGSTOP)
		m.host.does(m.t, "flood", "e/f")
		m.host.does(m.t, "over", "a/f1", "other")
		m.signal(syscall.SIGCONT)
		m.same()
	}},
	{"more names than are kept, which the kernel has to forget", func(m *model) {
		m.host.does(m.t, "crowd", "many", 4000) // gVisor keeps 2,500
		m.inside0("git", "add", "-A")
		for _, rule := range []string{"/a/f1=none", "/a/f1=write"} {
			m.run(m.wolffia, "policy", "add", "box0", "--reveal", rule)
			m.run(m.wolffia, "exec", "box0", "--", "find", ".", "-size", "+100k")
			m.host.does(m.t, "over", "many/d1/f1", rule)
			m.inside0("over", "many/d2/f2", rule)
			m.same()
		}
	}},
	{"a question right after each change", func(m *model) {
		if got := m.inside0("storm", "e/f/f2", 100); got != "all known" {
			m.t.Error(got)
		}
		m.same()
	}},
}

func (m *model) inside0(op ...any) string { return m.inside[0].does(m.t, op...) }

// same makes sure that git with the monitor sees what it sees without it.
func (m *model) same() {
	m.t.Helper()
	if got := m.inside0("compare"); got != "same" {
		m.t.Fatal(got)
	}
}

// sameIn is same for the repository in a directory.
func (m *model) sameIn(dir string) {
	m.t.Helper()
	if got := m.inside0("compare", "-C", dir); got != "same" {
		m.t.Fatal(got)
	}
}

func each(t *testing.T, backend string) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			m := newModel(t, backend, 1)
			s.do(m)
			m.turns(5) // it goes on
		})
	}
}

func TestEach(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	each(t, "bwrap")
}

func TestEachInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	each(t, "gvisor")
}

// steps returns how many steps to do: those of a short run, or of a full one.
func steps(short, full int) int {
	if testenv.Full() {
		return full
	}
	return short
}

// life is after how many steps a model begins anew: most files are untracked, or in repositories below, by then.
const life = 500

func turns(t *testing.T, backend string, steps int) {
	for s := seed(t); steps > 0 && !t.Failed(); s, steps = s+1, steps-life {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) { newModel(t, backend, s).turns(min(steps, life)) })
	}
}

func TestModel(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	turns(t, "bwrap", steps(400, 100_000))
}

func TestModelInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	turns(t, "gvisor", steps(100, 20_000))
}
