package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/runtime"
)

// The answers that a client's user can choose, in the form of an elicitation.
const (
	answerNo      = "no"
	answerNever   = "no, and do not ask again"
	answerOnce    = "once"
	answerSandbox = "for this sandbox"
	answerAlways  = "always"
)

// noElicitation is the first version of the protocol in which a server sends no requests of its own.
const noElicitation = "2026-07-28"

// An elicitor asks the user of a client the questions of the sandbox, one after the other
// (https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation).
type elicitor struct {
	*Server
	session *sdk.ServerSession

	mu      sync.Mutex
	waiting []runtime.Question
	asked   string             // the question that the user has; "": none
	cancel  context.CancelFunc // withdraws it
}

// elicits reports whether the user of a client can be asked.
func elicits(ss *sdk.ServerSession) bool {
	p := ss.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil || p.ProtocolVersion >= noElicitation {
		return false
	}
	can := p.Capabilities.Elicitation
	return can.Form != nil || can.URL == nil
}

// elicit asks the client's user the questions of a sandbox until that stops, or ctx ends.
func (s *Server) elicit(ctx context.Context, sandboxID string) {
	ss := s.client.Load()
	asker, can := s.Runtime.(runtime.Asker)
	if !can || ss == nil || !elicits(ss) {
		return
	}
	b, err := s.Runtime.Get(ctx, sandboxID)
	if err != nil || len(b.Ask) == 0 {
		return
	}
	e := &elicitor{Server: s, session: ss}
	_ = asker.Questions(ctx, sandboxID, func(all []runtime.Question) error { // calls say what is wrong with the sandbox
		e.news(ctx, sandboxID, all)
		return nil
	})
}

// news has the user asked the oldest question, and withdraws one that waits no more.
func (e *elicitor) news(ctx context.Context, sandboxID string, all []runtime.Question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = all
	for _, q := range all {
		if q.ID == e.asked {
			return
		}
	}
	if e.asked != "" {
		e.cancel()
	}
	if e.asked = ""; len(all) == 0 {
		return
	}
	q := all[0]
	ctx, cancel := context.WithDeadline(ctx, q.Until.Add(time.Second))
	e.asked, e.cancel = q.ID, cancel
	go func() { // ends with the question
		defer cancel()
		e.ask(ctx, sandboxID, &q)
	}()
}

// ask asks the user one question. Without an answer that can be read it stays for others.
func (e *elicitor) ask(ctx context.Context, sandboxID string, q *runtime.Question) {
	got, err := e.session.Elicit(ctx, e.form(q))
	if err != nil {
		return
	}
	a := answerOf(q, got)
	if e.Answer != nil {
		err = e.Answer(ctx, sandboxID, q, a)
	} else {
		err = e.Runtime.(runtime.Asker).Answer(ctx, sandboxID, a)
	}
	if err != nil && e.Log != nil {
		e.Log.Warn("answer a question of the sandbox", "question", q.ID, "error", err)
	}
}

// form returns a question as an elicitation.
func (e *elicitor) form(q *runtime.Question) *sdk.ElicitParams {
	answers := []any{answerNo, answerNever, answerOnce, answerSandbox}
	if e.Answer != nil {
		answers = append(answers, answerAlways)
	}
	form := map[string]any{"answer": map[string]any{"type": "string", "enum": answers, "default": answerNo, "title": "Allow it?"}}
	if len(q.Targets) > 1 {
		var targets []any
		for _, t := range q.Targets {
			targets = append(targets, t)
		}
		form["target"] = map[string]any{"type": "string", "enum": targets, "default": targets[0], "title": "What a wider answer than once is for"}
	}
	if q.Secret {
		form["path"] = map[string]any{"type": "string", "title": "It may be a secret: repeat its path to allow it"}
	}
	return &sdk.ElicitParams{
		Message:         sentence(q),
		RequestedSchema: map[string]any{"type": "object", "properties": form, "required": []any{"answer"}},
	}
}

// sentence returns the text of a question.
func sentence(q *runtime.Question) string {
	var b strings.Builder
	program := q.Program
	if program == "" {
		program = "a program"
	}
	fmt.Fprintf(&b, "In the sandbox, %s", program)
	if q.Command != "" {
		fmt.Fprintf(&b, " (%s)", q.Command)
	}
	fmt.Fprintf(&b, " %s.", q.Wish())
	if q.Rule != "" {
		fmt.Fprintf(&b, " Rule %s decides.", q.Rule)
	}
	fmt.Fprintf(&b, " It waits until %s; without an answer it is refused.", q.Until.Format("15:04:05"))
	return b.String()
}

// answerOf returns the answer of an elicitation: it refuses all but a form that allows.
func answerOf(q *runtime.Question, got *sdk.ElicitResult) *runtime.Answer {
	a := &runtime.Answer{Question: q.ID, By: "the MCP client"}
	if got.Action != "accept" {
		return a
	}
	text := func(key string) string {
		v, _ := got.Content[key].(string)
		return v
	}
	switch text("answer") {
	case answerNever:
		a.Scope = runtime.ScopeSandbox
	case answerOnce:
		a.Allow = true
	case answerSandbox:
		a.Allow, a.Scope = true, runtime.ScopeSandbox
	case answerAlways:
		a.Allow, a.Scope = true, runtime.ScopeAlways
	}
	if a.Path = text("path"); a.Allow && a.Scope != "" {
		a.Target = text("target")
	}
	return a
}
