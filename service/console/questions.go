package console

import (
	"context"
	"slices"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

// An asked is a question with its sandbox.
type asked struct {
	Sandbox string `json:"sandbox"`
	runtime.Question
}

// An asking is the hub as an asker of all sandboxes: a question waits only if somebody is asked.
type asking struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// ask has the questions come until unask.
func (b *hub) ask(ctx context.Context) {
	if b.h.opts.Asker == nil || b.asking != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &asking{cancel, make(chan struct{})}
	b.asking = a
	go func() { // ends with unask
		defer close(a.ended)
		err := b.h.opts.Asker.AllQuestions(ctx, func(id string, all []runtime.Question) error {
			b.questioned(id, all)
			return nil
		})
		if err != nil {
			b.h.log.Warn("the console cannot ask", "error", err.Error())
		}
	}()
}

// unask ends ask. What waits is refused, unless others ask too.
func (b *hub) unask() {
	if b.asking == nil {
		return
	}
	b.asking.cancel()
	<-b.asking.ended
	b.asking = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.asked)
}

// asks reports whether a sandbox can ask.
func asks(s *service.Sandbox) bool { return s.State.Runs() && len(s.Ask) > 0 }

// questioned notes the questions of a sandbox, and sends them.
func (b *hub) questioned(id string, all []runtime.Question) {
	b.mu.Lock()
	had := len(b.asked[id])
	b.asked[id] = slices.Clone(all)
	_, known := b.owners[id]
	close(b.heard)
	b.heard = make(chan struct{})
	b.mu.Unlock()
	if !known {
		b.look()
	}
	if had+len(all) > 0 {
		b.sendQuestions()
	}
}

func (b *hub) sendQuestions() {
	b.each(func(caller service.Caller) []byte {
		return frame("questions", map[string]any{"questions": b.questionsOf(caller)})
	})
}

// own notes the owner of a sandbox, which decides who is asked.
func (b *hub) own(s *service.Sandbox) {
	if !asks(s) {
		return
	}
	b.mu.Lock()
	_, known := b.owners[s.ID]
	b.owners[s.ID] = s.Owner
	late := !known && len(b.asked[s.ID]) > 0
	b.mu.Unlock()
	if late {
		b.sendQuestions()
	}
}

// askLimit bounds the wait of a page for its questions.
const askLimit = 2 * time.Second

// waitAsked waits until the sandboxes have somebody to ask.
func (b *hub) waitAsked(ctx context.Context, all []*service.Sandbox) {
	if b.h.opts.Asker == nil {
		return
	}
	limit := time.After(askLimit)
	for {
		b.mu.Lock()
		heard := b.heard
		missing := slices.ContainsFunc(all, func(s *service.Sandbox) bool {
			_, is := b.asked[s.ID]
			return asks(s) && !is
		})
		b.mu.Unlock()
		if !missing {
			return
		}
		select {
		case <-heard:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

// questionsOf returns the questions that wait for a caller, oldest first.
func (b *hub) questionsOf(caller service.Caller) []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []asked{}
	for id, all := range b.asked {
		if owner, known := b.owners[id]; !known && !caller.All || !caller.May(owner) {
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
