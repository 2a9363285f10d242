package console

import (
	"context"
	"slices"

	"wolffia/runtime"
	"wolffia/service"
)

// An asked is a question with its sandbox.
type asked struct {
	Sandbox string `json:"sandbox"`
	runtime.Question
}

// ask has the questions of a running sandbox come, while there are clients: a question waits only
// if somebody is asked.
func (b *hub) ask(ctx context.Context, s *service.Sandbox) {
	if b.h.opts.Asker == nil || b.asks[s.ID] != nil || !asks(s) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	b.asks[s.ID] = cancel
	b.mu.Lock()
	b.owners[s.ID] = s.Owner
	b.mu.Unlock()
	b.h.work.Go(func() {
		defer cancel()
		_ = b.h.opts.Asker.Questions(ctx, s.ID, func(all []runtime.Question) error { // it has stopped
			b.questioned(s.ID, all)
			return ctx.Err()
		})
		b.questioned(s.ID, nil)
	})
}

// asks reports whether a sandbox can ask.
func asks(s *service.Sandbox) bool { return len(s.Ask) > 0 }

func (b *hub) unask(id string) {
	if end := b.asks[id]; end != nil {
		end()
		delete(b.asks, id)
	}
}

// questioned notes the questions of a sandbox, and sends them.
func (b *hub) questioned(id string, all []runtime.Question) {
	b.mu.Lock()
	if len(all) == 0 && len(b.asked[id]) == 0 {
		b.mu.Unlock()
		return
	}
	if len(all) == 0 {
		delete(b.asked, id)
	} else {
		b.asked[id] = slices.Clone(all)
	}
	b.mu.Unlock()
	b.each(func(caller service.Caller) []byte {
		return frame("questions", map[string]any{"questions": b.questionsOf(caller)})
	})
}

// questionsOf returns the questions that wait for a caller, oldest first.
func (b *hub) questionsOf(caller service.Caller) []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []asked{}
	for id, all := range b.asked {
		if !caller.May(b.owners[id]) {
			continue
		}
		for _, q := range all {
			list = append(list, asked{id, q})
		}
	}
	slices.SortFunc(list, func(a, b asked) int { return a.Time.Compare(b.Time) })
	return list
}

// question returns a question that waits; nil: none does.
func (b *hub) question(sandbox, id string) *runtime.Question {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.asked[sandbox] {
		if q.ID == id {
			return &q
		}
	}
	return nil
}

func (h *Handler) questions(c *call) (any, error) {
	return map[string]any{"questions": h.hub.questionsOf(c.caller)}, nil
}

// An answering is the body of an answer.
type answering struct {
	Allow  bool   `json:"allow"`
	Scope  string `json:"scope"`
	Target string `json:"target"`
	Path   string `json:"path"`
}

func answer(h *Handler, c *call, q *answering) (any, error) {
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	id := c.PathValue("question")
	a := &runtime.Answer{Question: id, Allow: q.Allow, Scope: q.Scope, Target: q.Target, Path: q.Path, By: "console"}
	if c.caller.Key != "" {
		a.By = "console, key " + c.caller.Key
	}
	if !q.Allow && q.Scope == runtime.ScopeAlways {
		a.Scope = runtime.ScopeSandbox
	}
	if a.Scope != runtime.ScopeAlways || h.opts.Answer == nil {
		return nothing{}, in.Answer(c.Context(), a)
	}
	if err := c.all("answers for always"); err != nil {
		return nil, err
	}
	question := h.hub.question(c.id, id)
	if question == nil {
		return nil, runtime.Errorf(runtime.ErrNotFound, "question %.40q does not wait any more", id)
	}
	note, err := h.opts.Answer(c.Context(), c.id, question, a)
	return map[string]string{"note": note}, err
}
