package fusefs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// A testAsker has the questions of a tree, for the client to answer.
type testAsker struct {
	mu   sync.Mutex
	open []*testQuestion
}

type testQuestion struct {
	Denial
	answer   chan Answer
	answered bool
}

// A verdict answers the questions about a path; an empty one all questions.
type verdict struct {
	Path    string
	Allowed bool
}

func newTestAsker(asks bool) *testAsker {
	if !asks {
		return nil
	}
	return new(testAsker)
}

func (a *testAsker) options() *Ask {
	if a == nil {
		return nil
	}
	return &Ask{Write: true, Reveal: true, Limit: wait.Limit, Question: func(d Denial) (<-chan Answer, func()) {
		if d.Path == "unasked" || d.Path == "shown" {
			return nil, nil
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		q := &testQuestion{Denial: d, answer: make(chan Answer, 1)}
		a.open = append(a.open, q)
		return q.answer, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.open = slices.DeleteFunc(a.open, func(other *testQuestion) bool { return other == q })
		}
	}}
}

func (a *testAsker) waiting() []Denial {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []Denial{}
	for _, q := range a.open {
		all = append(all, q.Denial)
	}
	return all
}

func (a *testAsker) answer(v verdict) (any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		if !q.answered && (v.Path == "" || v.Path == q.Path) {
			q.answer <- Answer{v.Allowed, "test"}
			q.answered, any = true, true
		}
	}
	return any
}

// soon is wait.Until, with a limit below the kernel's for a request.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	if !wait.Within(30*time.Second, so) {
		t.Fatalf("%s: not so", what)
	}
}

// asked waits until n questions wait, and returns them as "OP PATH".
func (c *client) asked(t *testing.T, n int) (all []string) {
	t.Helper()
	soon(t, fmt.Sprintf("%d questions", n), func() bool {
		all = nil
		for _, d := range request[[]Denial](t, c, "asked") {
			all = append(all, d.Op+" "+d.Path)
		}
		return len(all) == n
	})
	return all
}

// answer answers the question about path that comes next.
func (c *client) answer(t *testing.T, path string, allowed bool) {
	t.Helper()
	soon(t, "a question about "+path, func() bool {
		if err := json.NewEncoder(c.conn).Encode("verdict"); err != nil {
			t.Fatal(err)
		}
		return request[bool](t, c, verdict{path, allowed})
	})
}

// A shell is a program that runs in the mount.
type shell struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan error
}

// sh starts a shell's script in the mount.
func (c *client) sh(t *testing.T, script string, args ...string) *shell {
	t.Helper()
	s := &shell{cmd: exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...), done: make(chan error, 1)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = c.dir, &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	return s
}

// ends waits for the end of the program, and returns what it has printed.
func (s *shell) ends(t *testing.T, want bool) string {
	t.Helper()
	select {
	case err := <-s.done:
		if (err == nil) != want {
			t.Errorf("%q: %v: %s", s.cmd.Args[2], err, s.out.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%q does not end", s.cmd.Args[2])
	}
	return s.out.String()
}

var asking = setup{
	Ask: true, Timeout: time.Hour,
	Parse: []string{"**=write", "/docs/=read", "/mixed/*.md=read", "/secrets/**=ask", "unasked=read", "/shown=view", "/hidden=none"},
	Host: func(t *testing.T, dir string) {
		for _, name := range []string{"docs/a.md", "docs/b.md", "docs/in/c.md", "mixed/a.md", "secrets/key", "shown", "hidden", "unasked", "free"} {
			write(t, dir, name, name+"\n")
		}
	},
}

func TestQuestionsAreAnswered(t *testing.T) {
	mountedBoth(t, asking, func(t *testing.T, c *client) {
		for _, step := range []struct {
			script string
			asks   []string // what is allowed in turn
			prints string
		}{
			{`echo more >> docs/a.md; cat docs/a.md`, []string{"docs/a.md"}, "docs/a.md\nmore\n"},
			{`echo other > docs/a.md; cat docs/a.md`, []string{"docs/a.md"}, "other\n"},
			{`echo other > mixed/a.md; cat mixed/a.md`, []string{"mixed/a.md"}, "other\n"},
			{`cat secrets/key`, []string{"secrets/key"}, "secrets/key\n"},
			{`mkdir docs/new; rmdir docs/new`, []string{"docs/new", "docs/new"}, ""},
			{`echo x > docs/new; cat docs/new; rm -f docs/new`, []string{"docs/new", "docs/new"}, "x\n"},
			{`mv docs/b.md docs/d.md; ls docs`, []string{"docs/b.md", "docs/d.md"}, "a.md\nd.md\nin\n"},
			{`mv docs/d.md out; cat out`, []string{"docs/d.md"}, "docs/b.md\n"},
			{`ln -s x docs/link; rm docs/link`, []string{"docs/link", "docs/link"}, ""},
			{`ln out docs/link; rm -f docs/link`, []string{"docs/link", "docs/link"}, ""},
			{`chmod 600 docs/a.md; stat -c %a docs/a.md`, []string{"docs/a.md"}, "400\n"},
			{`truncate -s 3 docs/in/c.md; cat docs/in/c.md`, []string{"docs/in/c.md"}, "doc"},
		} {
			s := c.sh(t, "set -e; "+step.script)
			for _, path := range step.asks {
				c.answer(t, path, true)
			}
			if got := s.ends(t, true); got != step.prints {
				t.Errorf("%s: printed %q, want %q", step.script, got, step.prints)
			}
		}
		c.asked(t, 0)
		for _, step := range []struct{ script, asks string }{
			{`echo x >> docs/a.md`, "docs/a.md"},
			{`cat secrets/key`, "secrets/key"},
			{`mkdir docs/new`, "docs/new"},
			{`mv free docs/free`, "docs/free"},
			{`cat shown`, ""},
			{`cat hidden`, ""},
			{`echo x > hidden`, ""},
			{`echo x > secrets/key`, ""},
			{`echo x > secrets/new`, ""},
			{`echo x > unasked`, ""},
			{`ln docs/a.md alias`, ""},
		} {
			s := c.sh(t, step.script)
			if step.asks != "" {
				c.answer(t, step.asks, false)
			}
			s.ends(t, false)
		}
		c.asked(t, 0)
		var outcomes []string
		for _, d := range request[[]Denial](t, c, "denials") {
			if d.Asked != "" {
				outcomes = append(outcomes, strings.Join([]string{d.Op, d.Path, d.Asked, d.By}, " "))
			} else if slices.Contains([]string{"docs/new", "secrets/key"}, d.Path) && d.Need != perm.Write {
				t.Errorf("a second report: %+v", d)
			}
		}
		for _, want := range []string{"open-write docs/a.md allowed test", "open-read secrets/key refused test", "mkdir docs/new refused test", "rename docs/d.md allowed test"} {
			if !slices.Contains(outcomes, want) {
				t.Errorf("no %q in the log: %q", want, outcomes)
			}
		}
	})
}

// What is allowed once is allowed to the process that asked, for what it asked, as long as it
// lives.
func TestOnceIsOneProcess(t *testing.T) {
	mounted(t, asking, func(t *testing.T, c *client) {
		// The descriptor of a shell is opened by the shell, and used by its children.
		s := c.sh(t, `
			exec 3>> docs/a.md; echo one >&3; echo two > docs/a.md; exec 4< secrets/key; read line <&4; echo "$line"
			(/bin/echo three >&3); (echo four > docs/a.md) 2> /dev/null || echo a child may not open it
			exec 5< docs/a.md && cat <&5; echo y > docs/b.md || echo no`)
		c.answer(t, "docs/a.md", true)
		c.answer(t, "secrets/key", true)
		c.answer(t, "docs/a.md", false)
		c.answer(t, "docs/b.md", false)
		if got := s.ends(t, true); !strings.HasPrefix(got, "secrets/key\na child may not open it\ntwo\nthree\n") || !strings.HasSuffix(got, "no\n") {
			t.Errorf("printed %q", got)
		}
		s = c.sh(t, `cat secrets/key`)
		c.answer(t, "secrets/key", false)
		s.ends(t, false)
		for _, want := range []string{"-rw-r--r--", "-r--r--r--"} { // the owner sees what it may
			script := `exec 3>> docs/a.md; stat -c %A /dev/fd/3 /dev/stdin <&3 | tail -1`
			if want[2] == 'r' && want[1] == 'r' {
				script = `stat -c %A docs/a.md`
			}
			s := c.sh(t, script)
			if strings.HasPrefix(script, "exec") {
				c.answer(t, "docs/a.md", true)
			}
			s.ends(t, true)
		}
		if got := c.sh(t, `stat -c %A docs/a.md secrets/key`).ends(t, true); got != "-r--r--r--\n----------\n" {
			t.Errorf("modes %q", got)
		}
		// A mapping is written after the file is closed.
		f := make(chan error, 1)
		go func() {
			f <- func() error {
				file, err := os.OpenFile(c.at("docs/b.md"), os.O_RDWR, 0)
				if err != nil {
					return err
				}
				m, err := unix.Mmap(int(file.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
				if err != nil {
					return err
				}
				file.Close()
				copy(m, "mmap")
				return unix.Munmap(m)
			}()
		}()
		c.answer(t, "docs/b.md", true)
		ok(t, "write through a mapping", <-f)
		if got, err := os.ReadFile(c.behind("docs/b.md")); err != nil || !strings.HasPrefix(string(got), "mmap") {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A question ends with its program, or when a person interrupts it, and for no other signal.
func TestKilledProgramsLeaveNoQuestion(t *testing.T) {
	mounted(t, asking, func(t *testing.T, c *client) {
		for _, script := range []string{`exec cat secrets/key`, `exec mkdir docs/new`, `echo x > docs/new`} {
			for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
				s := c.sh(t, script)
				c.asked(t, 1)
				ok(t, "kill", s.cmd.Process.Signal(sig))
				s.ends(t, false)
				c.asked(t, 0)
			}
		}
		s := c.sh(t, `trap 'echo got' USR1 CHLD URG; cat < secrets/key`)
		c.asked(t, 1)
		for range 5 {
			for _, sig := range []syscall.Signal{syscall.SIGURG, syscall.SIGCHLD, syscall.SIGWINCH, syscall.SIGUSR1} {
				ok(t, "kill", s.cmd.Process.Signal(sig))
			}
			time.Sleep(2 * signalPause)
		}
		c.answer(t, "secrets/key", true)
		if got := s.ends(t, true); !strings.Contains(got, "got") || !strings.Contains(got, "secrets/key") {
			t.Errorf("printed %q", got)
		}
	})
}

// A held request keeps neither other requests, nor rules, nor reviews.
func TestHeldRequestsHoldNothingUp(t *testing.T) {
	mounted(t, asking, func(t *testing.T, c *client) {
		const n = 40 // more than a tree has handlers at first
		var all []*shell
		for i := range n {
			all = append(all, c.sh(t, `cat secrets/key > $1`, fmt.Sprint("out", i)))
		}
		maker := c.sh(t, `mkdir docs/new && echo made`)
		c.asked(t, n+1)
		if got := c.sh(t, `echo x > new; cat new mixed/a.md; ls secrets`).ends(t, true); got != "x\nmixed/a.md\nkey\n" {
			t.Errorf("printed %q", got)
		}
		if !request[bool](t, c, "hold") { // a review begins
			t.Error("no review")
		}
		request[bool](t, c, "end")
		c.setRules(t, "**=write", "/docs/=read", "/secrets/**=ask", "/free=read")
		c.asked(t, n+1)
		c.setRules(t, "**=write", "/secrets/**=ask") // what the rules allow goes on
		if got := maker.ends(t, true); got != "made\n" {
			t.Errorf("printed %q", got)
		}
		c.asked(t, n)
		c.setRules(t, "**=write", "/secrets/**=none")
		c.answer(t, "secrets/key", true) // by rules that hide it by now
		for i, s := range all {
			s.ends(t, false)
			if got, err := os.ReadFile(c.at(fmt.Sprint("out", i))); err != nil || len(got) > 0 {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}

// More requests than maxHeld are refused at once.
func TestFewRequestsAreHeld(t *testing.T) {
	mounted(t, asking, func(t *testing.T, c *client) {
		var all []*shell
		for range maxHeld + 10 {
			all = append(all, c.sh(t, `exec cat secrets/key`))
		}
		c.asked(t, maxHeld)
		refused := 0
		soon(t, "the others' end", func() bool {
			for _, s := range all {
				refused += len(s.done)
			}
			defer func() { refused = 0 }()
			return refused == 10
		})
		c.answer(t, "secrets/key", true)
		good := 0
		for _, s := range all {
			if err := <-s.done; err == nil {
				good++
			} else {
				t.Log(s.out.String())
			}
		}
		if good != maxHeld {
			t.Errorf("%d programs have read it, want %d", good, maxHeld)
		}
	})
}

func TestGrantsAreBounded(t *testing.T) {
	a := newAsks((&testAsker{}).options())
	self := taskOf(uint32(os.Getpid()))
	for i := range 2 * maxGrants {
		a.grant(grant{self, fmt.Sprint(i), perm.Read, perm.Write})
		a.grant(grant{task{self.id, self.start + 1}, fmt.Sprint(i), perm.Read, perm.Write}) // another process, which has ended
	}
	if n := len(a.grants); n > maxGrants || a.grants[n-2].path != fmt.Sprint(2*maxGrants-1) {
		t.Errorf("%d grants", n)
	}
	if taskOf(0) != (task{}) || self == (task{}) {
		t.Error("process 0 is one, or this is none")
	}
}
