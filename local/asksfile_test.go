package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// fileAsker answers a sandbox's questions about files.
type fileAsker struct {
	rt   *local.Runtime
	id   string
	mu   sync.Mutex
	open []runtime.Question
	all  []runtime.Question // that came, each once
}

// askFiles starts a sandbox that asks about files, with an asker until the test's end.
func askFiles(t *testing.T, cow bool) *fileAsker {
	t.Helper()
	rt, _, codebase := newRuntime(t)
	for _, name := range []string{"docs/a.md", "docs/b.md", "secrets/key"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(codebase, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, codebase, name, name+"\n")
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		Resources:    runtime.Resources{PIDs: 10000, BestEffort: true}, // for a pause
		CodebasePath: codebase, CopyOnWrite: cow, Ask: []string{runtime.AskWrite, runtime.AskReveal}, AskLimit: wait.Limit,
		Permissions: []perm.Rule{
			{Pattern: "**", Level: perm.Write, Source: "test"},
			{Pattern: "/docs/", Level: perm.Read, Priority: perm.PriorityRule, Source: "test"},
			{Pattern: "/secrets/**", Level: perm.View, Ask: true, Priority: perm.PriorityReveal, Source: "test"},
		},
	})
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := &fileAsker{rt: rt, id: s.ID}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	listening := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(ended)
		_ = rt.Questions(ctx, s.ID, func(open []runtime.Question) error {
			once.Do(func() { close(listening) })
			a.mu.Lock()
			defer a.mu.Unlock()
			a.open = open
			for _, q := range open {
				if len(a.all) == 0 || a.all[len(a.all)-1].ID != q.ID {
					a.all = append(a.all, q)
				}
			}
			return nil
		})
	}()
	t.Cleanup(func() { end(); <-ended })
	wait.Receive(t, "the asker", listening)
	return a
}

// asked waits for n questions.
func (a *fileAsker) asked(t *testing.T, n int) (open []runtime.Question) {
	t.Helper()
	wait.Until(t, fmt.Sprint(n, " questions"), func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		open = a.open
		return len(open) == n
	})
	return open
}

// answer answers the one question that waits.
func (a *fileAsker) answer(t *testing.T, v runtime.Answer) runtime.Question {
	t.Helper()
	q := a.asked(t, 1)[0]
	v.Question, v.Path, v.By = q.ID, q.Path, "test"
	if err := a.rt.Answer(t.Context(), a.id, &v); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the end of question "+q.ID, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.open) == 0 || a.open[0].ID != q.ID
	})
	return q
}

// runs starts a shell's script inside; its end and output come.
func (a *fileAsker) runs(t *testing.T, script string) <-chan string {
	t.Helper()
	done := make(chan string, 1)
	ctx, end := context.WithTimeout(context.Background(), wait.Limit)
	go func() {
		defer end()
		r, err := a.rt.Exec(ctx, a.id, &runtime.ExecRequest{Command: []string{"sh", "-c", script}})
		if err != nil {
			done <- "error: " + err.Error()
			return
		}
		done <- fmt.Sprintf("%s%s%d", r.Stdout, r.Stderr, r.ExitCode)
	}()
	return done
}

func got(t *testing.T, what string, done <-chan string, want string) {
	t.Helper()
	if out := wait.Receive(t, what, done); !strings.Contains(out, want) {
		t.Errorf("%s: %q, want %q", what, out, want)
	}
}

// Programs as people use them wait, and go on as the answer says.
func TestFilesAreAskedAbout(t *testing.T) {
	a := askFiles(t, false)
	once := runtime.Answer{Allow: true}
	got(t, "no secret", func() <-chan string { d := a.runs(t, `cat secrets/key`); a.answer(t, runtime.Answer{}); return d }(), "Permission denied")
	done := a.runs(t, `cat secrets/key`)
	q := a.answer(t, once)
	got(t, "a secret", done, "secrets/key\n0")
	if q.Kind != runtime.AskReveal || !q.Secret || q.Program != "cat" || q.Command != "cat secrets/key" || q.PID == 0 || q.Targets[0] != "/secrets/key" || q.Dir {
		t.Errorf("%+v", q)
	}
	done = a.runs(t, `python3 -c 'f = open("docs/a.md", "w"); f.write("x"); f.close(); print(open("docs/a.md").read())'`)
	q = a.answer(t, once)
	got(t, "Python", done, "x\n0")
	if q.Kind != runtime.AskWrite || q.Op != "open-write" || !strings.HasPrefix(q.Program, "python3") || q.Secret || q.Rule != "/docs/=read" {
		t.Errorf("%+v", q)
	}
	done = a.runs(t, `mkdir docs/new && mv docs/b.md docs/new/ && ls docs/new`)
	if q := a.answer(t, once); q.Op != "mkdir" || !q.Dir || q.Until.Sub(q.Time) > 11*time.Second {
		t.Errorf("%+v", q)
	}
	a.answer(t, once) // both ends of the rename
	a.answer(t, once)
	got(t, "mkdir, mv", done, "b.md\n0")
	done = a.runs(t, `printf '\033[31m' > 'docs/e\033.md' || echo no`)
	if q := a.answer(t, runtime.Answer{}); strings.ContainsRune(q.Path+q.Command, '\033') {
		t.Errorf("%+v", q)
	}
	got(t, "an escape", done, "no")
	done = a.runs(t, `for i in 1 2 3 4 5 6; do mkdir docs/x$i; done`)
	for range 3 {
		a.answer(t, runtime.Answer{})
	}
	got(t, "refused unasked", done, "docs/x6")
	done = a.runs(t, `echo 1 > docs/a.md; touch docs/c.md; echo done`)
	a.answer(t, runtime.Answer{Allow: true, Scope: runtime.ScopeSandbox, Target: "/docs/**"})
	got(t, "a wider answer", done, "done\n0")
	got(t, "the rule", a.runs(t, `mkdir docs/y; git init -q docs/y/repo && git -C docs/y/repo -c user.name=x -c user.email=x commit -q --allow-empty -m x && echo good`), "good")
}

// git asks for each file that it replaces, whose directory is locked.
func TestGitIsAskedAbout(t *testing.T) {
	a := askFiles(t, true)
	done := a.runs(t, `git init -q . && git add docs && git -c user.name=x -c user.email=x commit -qm x && (echo more >> docs/a.md) && git checkout -q docs/a.md && cat docs/a.md`)
	for _, op := range []string{"open-write", "unlink", "create"} {
		if q := a.answer(t, runtime.Answer{Allow: true}); q.Op != op {
			t.Errorf("%s %s, want %s", q.Op, q.Path, op)
			if op == "unlink" {
				break
			}
		}
		if op == "unlink" {
			break // once is both
		}
	}
	got(t, "git checkout", done, "docs/a.md\n0")
}

// A hundred programs are one question.
func TestManyAskAtOnce(t *testing.T) {
	a := askFiles(t, false)
	done := a.runs(t, `for i in $(seq 60); do cat secrets/key & done; wait`)
	wait.Until(t, "all of them", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.open) == 1 && a.open[0].Count == 60
	})
	a.answer(t, runtime.Answer{Allow: true})
	if out := wait.Receive(t, "their end", done); strings.Count(out, "secrets/key\n") != 60 {
		t.Errorf("%q", out)
	}
	if len(a.all) != 1 {
		t.Errorf("%d questions", len(a.all))
	}
}

// Whatever is done with a sandbox while questions wait is done.
func TestQuestionsHoldNothingUp(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, a *fileAsker) error{
		"stop":    func(t *testing.T, a *fileAsker) error { return a.rt.Stop(t.Context(), a.id) },
		"destroy": func(t *testing.T, a *fileAsker) error { return a.rt.Destroy(t.Context(), a.id) },
		"apply": func(t *testing.T, a *fileAsker) error {
			_, err := a.rt.Apply(t.Context(), a.id, runtime.ApplyOptions{})
			return err
		},
		"rules": func(t *testing.T, a *fileAsker) error {
			return a.rt.SetPermissions(t.Context(), a.id, []perm.Rule{{Pattern: "**", Level: perm.Write}})
		},
		"tree server": func(t *testing.T, a *fileAsker) error {
			signalPart(t, a.id, "wolffia tree", syscall.SIGKILL)
			return nil
		},
		"shim": func(t *testing.T, a *fileAsker) error {
			signalPart(t, a.id, "wolffia shim", syscall.SIGKILL)
			return nil
		},
		"kill": func(t *testing.T, a *fileAsker) error {
			_, err := a.rt.Exec(t.Context(), a.id, &runtime.ExecRequest{Command: []string{"pkill", "-9", "cat|mkdir"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := askFiles(t, name == "apply")
			done := []<-chan string{a.runs(t, `cat secrets/key`), a.runs(t, `mkdir docs/new`)}
			a.asked(t, 2)
			if err := do(t, a); err != nil {
				t.Error(err)
			}
			if name == "apply" {
				for _, q := range a.asked(t, 2) {
					if err := a.rt.Answer(t.Context(), a.id, &runtime.Answer{Question: q.ID}); err != nil {
						t.Error(err)
					}
				}
			}
			for _, d := range done {
				wait.Receive(t, "the program's end", d)
			}
		})
	}
}

// A pause refuses what waits, which could not be frozen.
func TestPauseRefusesQuestions(t *testing.T) {
	a := askFiles(t, false)
	done := a.runs(t, `cat secrets/key`)
	a.asked(t, 1)
	err := a.rt.Pause(t.Context(), a.id)
	if err != nil {
		t.Skip(err)
	}
	a.asked(t, 0)
	if err := a.rt.Resume(t.Context(), a.id); err != nil {
		t.Fatal(err)
	}
	got(t, "the program", done, "Permission denied")
	done = a.runs(t, `cat secrets/key`)
	a.answer(t, runtime.Answer{Allow: true})
	got(t, "a later question", done, "secrets/key\n0")
}
