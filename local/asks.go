package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// Questions implements [runtime.Asker].
func (s *settings) Questions(ctx context.Context, sandboxID string, each func([]runtime.Question) error) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	lost, err := questions(ctx, rec, each)
	if lost != nil && ctx.Err() == nil {
		return conns.Lost(ctx, rec, lost)
	}
	return err
}

// questions is Questions of rec. lost is why the connection to its shim has ended.
func questions(ctx context.Context, rec *statedir.Record, each func([]runtime.Question) error) (lost, err error) {
	sock, err := conns.Dial(rec)
	if err != nil {
		return nil, err
	}
	conn := client.New(sock)
	defer conn.Close()
	for seen := int64(0); ; {
		reply := new(boot.Reply)
		if err := conn.Control(ctx, &boot.Request{Op: boot.OpQuestions, Since: seen}, reply); err != nil {
			return err, nil
		}
		if err := reply.Err(); err != nil {
			return nil, ofAnotherVersion(rec, err)
		}
		if seen = reply.Seen; reply.Questions == nil {
			continue // no news yet
		}
		if err := each(*reply.Questions); err != nil {
			return nil, err
		}
	}
}

// AllQuestions implements [runtime.Asker].
func (s *settings) AllQuestions(ctx context.Context, each func(sandboxID string, all []runtime.Question) error) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex // held while each runs
	tell := func(id string, all []runtime.Question) error {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := each(id, all)
		if err != nil {
			cancel(err)
		}
		return err
	}
	var of sync.Mutex
	starts := map[string]int{} // of those that are asked for; guarded by of
	over := func(id string, seen int) (now int, over bool) {
		of.Lock()
		defer of.Unlock()
		if now = starts[id]; now == seen {
			delete(starts, id)
		}
		return now, now == seen
	}
	err := s.dir.Starts(ctx, func(rec *statedir.Record) {
		_, c, err := s.header(rec.ID())
		if err != nil || len(c.Ask) == 0 {
			return
		}
		of.Lock()
		defer of.Unlock()
		if starts[rec.ID()]++; starts[rec.ID()] > 1 {
			return
		}
		asking.Go(func() { // ends with the sandbox, or ctx
			for seen, ended := 1, false; !ended && ctx.Err() == nil; seen, ended = over(rec.ID(), seen) {
				// Not Questions: of a sandbox that was started again meanwhile it would wait for
				// the end, and the first accesses do not wait long for somebody to ask.
				_, _ = questions(ctx, rec, func(all []runtime.Question) error { return tell(rec.ID(), all) })
				_ = tell(rec.ID(), nil)
			}
		})
	})
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// Answer implements [runtime.Asker].
func (s *settings) Answer(ctx context.Context, sandboxID string, a *runtime.Answer) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	if !a.AddsRule() {
		_, err = conns.Ask(ctx, rec, &boot.Request{Op: boot.OpAnswer, Answer: a}, boot.StatsLimit)
		return ofAnotherVersion(rec, err)
	}
	sock, err := conns.Dial(rec)
	if err != nil {
		return err
	}
	conn := client.New(sock)
	defer conn.Close()
	q, err := claim(ctx, rec, conn, a)
	if err != nil {
		return err
	}
	step.Reached("answer: question claimed")
	if err := s.addRule(ctx, rec.ID(), q, a); err != nil {
		return err
	}
	step.Reached("answer: rule added")
	// no error of the caller's: the rule has answered it
	_ = conn.Control(ctx, &boot.Request{Op: boot.OpAnswer, Answer: a}, new(boot.Reply))
	return nil
}

// claim has no other answer than a, which is to add a rule, be taken for a question until the
// connection ends, and returns the question.
func claim(ctx context.Context, rec *statedir.Record, conn *client.Conn, a *runtime.Answer) (*runtime.Question, error) {
	ctx, cancel := context.WithTimeout(ctx, boot.StatsLimit)
	defer cancel()
	reply := new(boot.Reply)
	if err := conn.Control(ctx, &boot.Request{Op: boot.OpClaim, Answer: a}, reply); err != nil {
		return nil, conns.Lost(ctx, rec, err)
	}
	if err := reply.Err(); err != nil {
		return nil, ofAnotherVersion(rec, err)
	}
	if reply.Questions == nil || len(*reply.Questions) != 1 {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: its shim does not name question %.20q", rec.ID(), a.Question)
	}
	return &(*reply.Questions)[0], nil
}

// addRule adds what an answer allows to the rules of a sandbox.
func (s *settings) addRule(ctx context.Context, id string, q *runtime.Question, a *runtime.Answer) error {
	target := a.Target
	if target == "" {
		target = q.Targets[0]
	}
	source := answerSource(a.By, time.Now())
	if q.Kind == runtime.AskNetwork {
		_, err := s.ChangeEgress(ctx, id, func(p *network.Policy) error {
			if !slices.Contains(p.Allow, target) {
				p.Allow = append(p.Allow, target)
			}
			if p.Sources == nil {
				p.Sources = map[string]string{}
			}
			p.Sources[target] = source
			return nil
		})
		return err
	}
	rule := perm.Rule{Pattern: target, Level: max(q.Need, perm.Read), Priority: perm.PriorityRule, Source: source}
	if strings.HasPrefix(q.Allow, "--reveal ") {
		rule.Priority = perm.PriorityReveal
	}
	const attempts = 4 // other answers may add rules meanwhile
	for range attempts {
		_, c, err := s.find(id)
		if err != nil {
			return err
		}
		err = s.ReplacePermissions(ctx, id, c.Permissions, withRule(c.Permissions, rule))
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return ErrChanged
}

// withRule returns rules with one more, which replaces those of the same priority and paths: of two
// the stricter level would decide.
func withRule(rules []perm.Rule, rule perm.Rule) []perm.Rule {
	paths := func(pattern string) string { return strings.TrimSuffix(strings.TrimSuffix(pattern, "/**"), "/") }
	return append(slices.DeleteFunc(slices.Clone(rules), func(old perm.Rule) bool {
		plain := perm.Rule{Pattern: old.Pattern, Level: old.Level, Ask: old.Ask, Priority: rule.Priority, Source: old.Source}
		return old == plain && paths(old.Pattern) == paths(rule.Pattern)
	}), rule)
}

// answerSource returns the source of a rule that an answer has added. Package policy keeps it, as of
// a line of a file: it ends with a colon and digits.
func answerSource(by string, at time.Time) string {
	if by == "" {
		by = "a program"
	}
	return fmt.Sprintf("answer of %.60s, %s", by, at.UTC().Format("2006-01-02 15:04:05"))
}
