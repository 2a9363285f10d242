package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/asker"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/local"
	"wolffia/runtime"
)

func asksCommand(h *host.Host) *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "asks [-f] [--json] [SANDBOX]",
		Short: "List the questions of sandboxes that wait for an answer",
		Long: `List the questions of sandboxes with --ask that wait for an answer, of one sandbox or of
all. With -f, at a terminal, each is asked as it comes; elsewhere it is printed. While -f
runs, the sandboxes have somebody to ask: accesses wait instead of being refused.
Without SANDBOX it goes on until Ctrl-C, also with sandboxes that start later.`,
		Example: `  wolffia asks -f
  wolffia asks -f box
  wolffia asks answer box q1 allow --for sandbox --target '*.example.com:443'`,
		Args: cobra.MaximumNArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			switch prints := asJSON || !h.Asks(); {
			case follow && len(args) == 0:
				return followAll(ctx, h, rt, prints)
			case follow:
				return followAsks(ctx, h, rt, args[0], prints)
			}
			return listAsks(ctx, h, rt, args, asJSON)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "ask or print each question as it comes, until the sandbox, if one is named, stops")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: an array or, with -f, an object a line")
	cmd.AddCommand(answerCommand(h))
	return cmd
}

// A shownQuestion is what asks --json prints.
type shownQuestion struct {
	SandboxID string `json:"sandboxId"`
	runtime.Question
}

// errListed ends Questions after the first list.
var errListed = errors.New("listed")

// questionsOf returns the questions of a sandbox that wait now.
func questionsOf(ctx context.Context, rt *local.Runtime, id string) (all []runtime.Question, err error) {
	err = rt.Questions(ctx, id, func(now []runtime.Question) error {
		all = slices.Clone(now)
		return errListed
	})
	if errors.Is(err, errListed) {
		err = nil
	}
	return all, err
}

func listAsks(ctx context.Context, h *host.Host, rt *local.Runtime, args []string, asJSON bool) error {
	of, err := askingSandboxes(ctx, rt, args)
	if err != nil {
		return err
	}
	all := []shownQuestion{}
	for _, b := range of {
		now, err := questionsOf(ctx, rt, b.ID)
		if err != nil && len(args) > 0 {
			return err
		}
		for _, q := range now {
			all = append(all, shownQuestion{b.ID, q})
		}
	}
	t := console.Table[shownQuestion]{Wrap: true, Head: "SANDBOX\tQUESTION\tLEFT\tWHAT", Row: func(q shownQuestion) []any {
		return []any{q.SandboxID, q.ID, time.Until(q.Until).Round(time.Second), asker.Sentence(&q.Question)}
	}}
	return t.Print(h.Console, console.Format{JSON: asJSON}, all)
}

// askingSandboxes returns the sandbox that is named, or all that run and ask.
func askingSandboxes(ctx context.Context, rt *local.Runtime, args []string) ([]*runtime.Sandbox, error) {
	if len(args) > 0 {
		b, err := rt.Get(ctx, args[0])
		return []*runtime.Sandbox{b}, err
	}
	all, err := rt.List(ctx)
	return slices.DeleteFunc(all, func(b *runtime.Sandbox) bool { return !b.State.Runs() || len(b.Ask) == 0 }), err
}

// followAsks asks each question of a sandbox at the terminal, or prints it.
func followAsks(ctx context.Context, h *host.Host, rt *local.Runtime, ref string, prints bool) error {
	b, err := rt.Get(ctx, ref)
	if err != nil {
		return err
	}
	if !b.State.Runs() {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is %s: wolffia start %[1]s", b.ContainerName(), b.State)
	}
	if len(b.Ask) == 0 {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox %s asks nothing: create it with --ask", b.ContainerName())
	}
	if !prints {
		t := asker.NewTerminal(h, rt, b.ID, false)
		t.Typed = func(over <-chan struct{}) io.Reader { return h.Typist(over) }
		return untilItEnds(t.Run(ctx, nil))
	}
	p := printer{h.Out, map[string]time.Time{}}
	return untilItEnds(rt.Questions(ctx, b.ID, func(all []runtime.Question) error { return p.print(b.ID, all) }))
}

// followAll is followAsks for all sandboxes, also those that start later.
func followAll(ctx context.Context, h *host.Host, rt *local.Runtime, prints bool) error {
	if prints {
		p := printer{h.Out, map[string]time.Time{}}
		return rt.AllQuestions(ctx, p.print)
	}
	h.Note("the questions of all sandboxes are asked here; Ctrl-C ends it")
	t := asker.NewTerminal(h, rt, "", false)
	t.Typed = func(over <-chan struct{}) io.Reader { return h.Typist(over) }
	return t.Run(ctx, nil)
}

// A printer prints each question once.
type printer struct {
	out   io.Writer
	shown map[string]time.Time // by sandbox, the time of the newest question
}

func (p *printer) print(sandbox string, all []runtime.Question) error {
	for _, q := range all {
		if !q.Time.After(p.shown[sandbox]) {
			continue
		}
		p.shown[sandbox] = q.Time
		if err := json.NewEncoder(p.out).Encode(shownQuestion{sandbox, q}); err != nil {
			return err
		}
	}
	return nil
}

// untilItEnds returns the error of Questions, nil if the sandbox has ended meanwhile.
func untilItEnds(err error) error {
	if errors.Is(err, runtime.ErrConflict) || errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}

func answerCommand(h *host.Host) *cobra.Command {
	var a runtime.Answer
	cmd := &cobra.Command{
		Use:   "answer SANDBOX QUESTION ANSWER",
		Short: "Answer a question of a sandbox",
		Long: `Answer a question of a sandbox that waits: allow or refuse. --for sandbox adds a rule to the sandbox, or
has the refused not asked for again; --for always writes the rule into a configuration
file too: a host into your own, a path into the project's, which is trusted then.`,
		Example: `  wolffia asks answer box q1 allow
  wolffia asks answer box q2 refuse --for sandbox`,
		Args:      cobra.ExactArgs(3),
		ValidArgs: []string{"allow", "refuse"},
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			switch a.Question = args[1]; args[2] {
			case "allow":
				a.Allow = true
			case "refuse":
			default:
				return runtime.Errorf(runtime.ErrInvalid, "%q is no answer: allow or refuse", args[2])
			}
			if !slices.Contains([]string{runtime.ScopeOnce, runtime.ScopeSandbox, runtime.ScopeAlways}, a.Scope) {
				return runtime.Errorf(runtime.ErrInvalid, "--for %q: it must be once, sandbox or always", a.Scope)
			}
			all, err := questionsOf(ctx, rt, args[0])
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(q runtime.Question) bool { return q.ID == a.Question })
			if i < 0 {
				return runtime.Errorf(runtime.ErrNotFound, "sandbox %s: question %.20q does not wait", args[0], a.Question)
			}
			a.By = "wolffia asks"
			note, err := asker.Answer(ctx, h, rt, args[0], &all[i], &a)
			if note != "" {
				h.Note("%s", console.Printable(note))
			}
			return err
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&a.Scope, "for", runtime.ScopeOnce, "once, sandbox or always")
	fl.StringVar(&a.Target, "target", "", "allow this one of the question's targets, with --for sandbox or always (default: the first)")
	fl.StringVar(&a.Path, "path", "", "repeat the path, to allow what may be a secret")
	return cmd
}
