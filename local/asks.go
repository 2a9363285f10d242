package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
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
	sock, err := conns.Dial(rec)
	if err != nil {
		return err
	}
	conn := client.New(sock)
	defer conn.Close()
	for seen := int64(0); ; {
		reply := new(boot.Reply)
		if err := conn.Control(ctx, &boot.Request{Op: boot.OpQuestions, Since: seen}, reply); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return conns.Lost(ctx, rec, err)
		}
		if err := reply.Err(); err != nil {
			return ofAnotherVersion(rec, err)
		}
		if seen = reply.Seen; reply.Questions == nil {
			continue // no news yet
		}
		if err := each(*reply.Questions); err != nil {
			return err
		}
	}
}

// Answer implements [runtime.Asker].
func (s *settings) Answer(ctx context.Context, sandboxID string, a *runtime.Answer) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	if a.AddsRule() {
		q, err := s.question(ctx, rec, a.Question)
		if err != nil {
			return err
		}
		if err := q.CheckAnswer(a); err != nil {
			return err
		}
		if err := s.addRule(ctx, rec.ID(), q, a); err != nil {
			return err
		}
	}
	_, err = conns.Ask(ctx, rec, &boot.Request{Op: boot.OpAnswer, Answer: a}, boot.StatsLimit)
	if a.AddsRule() && errors.Is(err, runtime.ErrNotFound) {
		return nil // the rule has answered it
	}
	return ofAnotherVersion(rec, err)
}

// question returns a question of a sandbox that waits.
func (s *settings) question(ctx context.Context, rec *statedir.Record, id string) (*runtime.Question, error) {
	reply, err := conns.Ask(ctx, rec, &boot.Request{Op: boot.OpQuestions}, boot.StatsLimit)
	if err != nil {
		return nil, ofAnotherVersion(rec, err)
	}
	if reply.Questions != nil {
		for i := range *reply.Questions {
			if q := &(*reply.Questions)[i]; q.ID == id {
				return q, nil
			}
		}
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s: question %.20q does not wait", rec.ID(), id)
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
