package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/perm"
	"wolffia/runtime"
)

// Who asks for all sandboxes asks for those that start later too, from their first access on.
func TestAllQuestions(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	if err := os.Mkdir(filepath.Join(codebase, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	create := func() string {
		t.Helper()
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
			CodebasePath: codebase, Ask: []string{runtime.AskWrite},
			Permissions: []perm.Rule{
				{Pattern: "**", Level: perm.Write, Source: "test"},
				{Pattern: "/docs/", Level: perm.Read, Priority: perm.PriorityRule, Source: "test"},
			},
		})
		if err == nil {
			err = rt.Start(t.Context(), s.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	before := create()
	type news struct {
		id  string
		all []runtime.Question
	}
	came, ended := make(chan news, 100), make(chan error, 1)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		ended <- rt.AllQuestions(ctx, func(id string, all []runtime.Question) error {
			came <- news{id, slices.Clone(all)}
			return nil
		})
	}()
	if n := wait.Receive(t, "the first list", came); n.id != before || len(n.all) != 0 {
		t.Errorf("at first: %+v", n)
	}
	asks := func(id string) {
		t.Helper()
		a := &fileAsker{rt: rt, id: id}
		done := a.runs(t, "echo x >docs/"+id)
		for {
			n := wait.Receive(t, "the question of "+id, came)
			if len(n.all) == 0 {
				continue
			}
			if n.id != id || n.all[0].Path != "docs/"+id {
				t.Errorf("%s asks: %+v", id, n)
			}
			if err := rt.Answer(t.Context(), id, &runtime.Answer{Question: n.all[0].ID, Allow: true}); err != nil {
				t.Error(err)
			}
			break
		}
		got(t, "the answer", done, "0")
	}
	asks(before)
	later := create()
	asks(later)
	if err := errors.Join(rt.Stop(t.Context(), before), rt.Start(t.Context(), before)); err != nil {
		t.Fatal(err)
	}
	asks(before) // the file is there, but not the process that may write it
	if err := rt.Destroy(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	asks(create())
	end()
	if err := wait.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	stop := errors.New("stop")
	if err := rt.AllQuestions(t.Context(), func(string, []runtime.Question) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of each: %v", err)
	}
}

// Of a wider answer and a refusal at once one counts: with a refusal there is no rule.
func TestFirstAnswerCounts(t *testing.T) {
	a := askFiles(t, false)
	for i := range 9 { // ten refusals would end the questions
		program := fmt.Sprintf("p%d", i)
		done := a.runs(t, fmt.Sprintf("ln -s /bin/sh /tmp/%s; /tmp/%[1]s -c 'echo x >docs/%[1]s'", program))
		q := a.asked(t, 1)[0]
		refused := make(chan error, 1)
		go func() {
			time.Sleep(time.Duration(i) * time.Millisecond / 2) // while the rule is written, too
			refused <- a.rt.Answer(t.Context(), a.id, &runtime.Answer{Question: q.ID})
		}()
		wide := a.rt.Answer(t.Context(), a.id, &runtime.Answer{Question: q.ID, Allow: true, Scope: runtime.ScopeSandbox})
		no := wait.Receive(t, "the refusal", refused)
		out := wait.Receive(t, "the program", done)
		d, err := a.rt.Inspect(t.Context(), a.id)
		if err != nil {
			t.Fatal(err)
		}
		ruled := slices.ContainsFunc(d.Config.Permissions, func(r perm.Rule) bool { return r.Pattern == q.Targets[0] })
		allowed := strings.HasSuffix(out, "0") && !strings.Contains(out, "denied")
		if (wide == nil) == (no == nil) || allowed != (wide == nil) || ruled != allowed {
			t.Errorf("%d: the wider answer: %v; the refusal: %v; the program: %q; a rule: %t", i, wide, no, out, ruled)
		}
		t.Logf("%d: allowed: %t", i, allowed)
	}
}
