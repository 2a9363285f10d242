package treeserver

import (
	"slices"
	"sync"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/internal/host/boot"
	"wolffia/perm"
	"wolffia/runtime"
)

// questions are those that wait for the shim's answers. The zero value is ready. It is safe for
// concurrent use.
type questions struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]chan<- fusefs.Answer
	over bool // no more answers come
}

// add returns the number of a new question, 0 if no answer would come.
func (q *questions) add(answer chan<- fusefs.Answer) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return 0
	}
	if q.open == nil {
		q.open = map[uint64]chan<- fusefs.Answer{}
	}
	q.last++
	q.open[q.last] = answer
	return q.last
}

// take removes a question; nil: it does not wait any more.
func (q *questions) take(id uint64) chan<- fusefs.Answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	answer := q.open[id]
	delete(q.open, id)
	return answer
}

// end refuses all questions.
func (q *questions) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	for _, answer := range q.open {
		answer <- fusefs.Answer{}
	}
	q.open = nil
}

// asks returns what has accesses wait for the shim's answers; nil if the sandbox does not ask.
// serving is closed when the shim takes questions.
func (t *treeServer) asks(serving <-chan struct{}) *fusefs.Ask {
	write, reveal := slices.Contains(t.boot.Ask, runtime.AskWrite), slices.Contains(t.boot.Ask, runtime.AskReveal)
	if !write && !reveal {
		return nil
	}
	o := &fusefs.Ask{Write: write, Reveal: reveal, Limit: t.boot.AskLimit}
	o.Question = func(d fusefs.Denial) (<-chan fusefs.Answer, func()) {
		question := questionOf(&d)
		if question == nil {
			return nil, nil
		}
		<-serving
		answer := make(chan fusefs.Answer, 1)
		id := t.questions.add(answer)
		if id == 0 || boot.SendPacket(t.control, &boot.TreeReply{Asked: id, Question: question}, nil) != nil {
			t.questions.take(id)
			return nil, nil
		}
		return answer, func() {
			if t.questions.take(id) != nil {
				t.send(&boot.TreeReply{Asked: id})
			}
		}
	}
	return o
}

// answered passes an answer on.
func (t *treeServer) answered(req *boot.TreeRequest) {
	if answer := t.questions.take(req.Asked); answer != nil {
		answer <- fusefs.Answer{Allowed: req.Allowed, By: req.By}
	}
}

// maxAskedPath bounds the path of a question, in bytes of its printable form: a person reads it.
const maxAskedPath = 1024

// questionOf returns the question whether d may be, with the thread in the place of its process;
// nil: it is not asked.
func questionOf(d *fusefs.Denial) *runtime.Question {
	policy, _ := d.Rules.(*perm.Policy)
	r := recordOf(d)
	r.Explain(policy)
	name := audit.Printable(d.Path)
	if r.Rule == nil || r.Problem != "" || len(name) > maxAskedPath {
		return nil
	}
	q := &runtime.Question{
		PID: int(d.PID), Op: d.Op, Path: name, Level: d.Level, Need: d.Need, Dir: d.Name,
		Rule: audit.Printable(r.Rule.String()), Source: audit.Printable(r.Rule.Source), Allow: audit.Printable(r.Remedy),
		Targets: perm.Targets(d.Path, d.Op == "mkdir" || d.Op == "rmdir", r.Rule),
	}
	switch {
	case d.Level == perm.View && d.Need == perm.Read && r.Rule.Ask:
		q.Kind, q.Secret = runtime.AskReveal, perm.NamesSecret(d.Path)
	case d.Level == perm.Read && d.Need == perm.Write && !r.Rule.GuardsGit():
		q.Kind = runtime.AskWrite
	default:
		return nil
	}
	return q
}
