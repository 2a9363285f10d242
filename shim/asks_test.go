package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

const noLimit = time.Hour

// asker returns questions with somebody to ask.
func askedBy(t *testing.T) (*asks, *clientConn) {
	a, c := &asks{}, &clientConn{gone: make(chan struct{})}
	if r := a.waiting(c, 0); r.Questions == nil || len(*r.Questions) != 0 {
		t.Fatalf("at first: %+v", r)
	}
	return a, c
}

func toReach(host string) *runtime.Question {
	return &runtime.Question{Kind: runtime.AskNetwork, Program: "curl", Host: host, Targets: []string{host}}
}

// begin asks in a goroutine, and returns when the question waits.
func begin(t *testing.T, a *asks, c *clientConn, ctx context.Context, q *runtime.Question) (id string, answer chan bool) {
	t.Helper()
	answer = make(chan bool, 1)
	go func() { answer <- a.ask(ctx, q, noLimit) }()
	for seen := int64(0); ; {
		r := a.waiting(c, seen)
		for _, w := range *r.Questions {
			if w.Targets[0] == q.Targets[0] {
				return w.ID, answer
			}
		}
		seen = r.Seen
	}
}

func TestAskNobody(t *testing.T) {
	a := &asks{}
	if a.ask(t.Context(), toReach("a:1"), noLimit) {
		t.Error("nobody is asked, and it is allowed")
	}
	a, c := askedBy(t)
	_, answer := begin(t, a, c, t.Context(), toReach("a:1"))
	a.left(c)
	if <-answer {
		t.Error("the asker has gone, and it is allowed")
	}
	if a.ask(t.Context(), toReach("a:1"), noLimit) {
		t.Error("nobody is asked any more, and it is allowed")
	}
}

// Equal questions are one, the first answer holds, and a limit and the end of the asking process end one.
func TestAnswers(t *testing.T) {
	a, c := askedBy(t)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if !a.ask(t.Context(), toReach("a:1"), noLimit) {
				t.Error("not allowed")
			}
		})
	}
	wait.Until(t, "five wait", func() bool {
		r := a.waiting(c, 0)
		return len(*r.Questions) == 1 && (*r.Questions)[0].Count == 5
	})
	if err := a.answer(c, &runtime.Answer{Question: "q1", Allow: true}); err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := a.answer(c, &runtime.Answer{Question: "q1"}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("the second answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, answer := begin(t, a, c, ctx, toReach("b:1"))
	cancel()
	if <-answer {
		t.Error("the process has ended, and it is allowed")
	}
	if r := a.waiting(c, 0); len(*r.Questions) != 0 {
		t.Errorf("left: %+v", *r.Questions)
	}
	if a.ask(t.Context(), toReach("c:1"), time.Millisecond) {
		t.Error("the limit is over, and it is allowed")
	}
}

// A program is not asked for any more after three refusals, nor is what is not to be asked again.
func TestTired(t *testing.T) {
	a, c := askedBy(t)
	for i := range maxRefused {
		q := toReach(fmt.Sprintf("%d:1", i))
		id, answer := begin(t, a, c, t.Context(), q)
		if err := a.answer(c, &runtime.Answer{Question: id}); err != nil || <-answer {
			t.Errorf("refusal %d: %v", i, err)
		}
	}
	if a.ask(t.Context(), toReach("more:1"), noLimit) {
		t.Error("asked after three refusals")
	}
	var left []chan bool
	for i := range 5 { // they wait together: the third refusal is for all
		q := toReach(fmt.Sprintf("together%d:1", i))
		q.Program = "npm"
		_, answer := begin(t, a, c, t.Context(), q)
		left = append(left, answer)
	}
	for _, w := range *a.waiting(c, 0).Questions {
		_ = a.answer(c, &runtime.Answer{Question: w.ID}) // two of them do not wait any more
	}
	for i, answer := range left {
		if <-answer {
			t.Errorf("%d is allowed", i)
		}
	}
	_, ruled := begin(t, a, c, t.Context(), &runtime.Question{Kind: runtime.AskNetwork, Host: "ruled:1", Targets: []string{"ruled:1"}})
	a.allow(runtime.AskNetwork, func(q *runtime.Question) bool { return q.Host == "ruled:1" })
	if !<-ruled {
		t.Error("a rule allows it, and it is refused")
	}
	q := toReach("other:1")
	q.Program = "wget"
	id, answer := begin(t, a, c, t.Context(), q)
	if err := a.answer(c, &runtime.Answer{Question: id, Scope: runtime.ScopeSandbox}); err != nil || <-answer {
		t.Error(err)
	}
	q.Program = "node"
	if a.ask(t.Context(), q, noLimit) {
		t.Error("asked again")
	}
}

// Refusals because nobody was there are not the user's.
func TestNobodyIsNoAnswer(t *testing.T) {
	a, c := askedBy(t)
	for i := range 2 * maxFatigue {
		_, answer := begin(t, a, c, t.Context(), toReach(fmt.Sprintf("left%d:1", i)))
		a.left(c)
		if <-answer || a.ask(t.Context(), toReach("nobody:1"), noLimit) {
			t.Error("nobody is asked, and it is allowed")
		}
		a.waiting(c, 0)
		if a.ask(t.Context(), toReach("late:1"), time.Millisecond) {
			t.Error("nobody answers, and it is allowed")
		}
	}
	id, answer := begin(t, a, c, t.Context(), toReach("left0:1"))
	if err := a.answer(c, &runtime.Answer{Question: id, Allow: true}); err != nil || !<-answer {
		t.Errorf("it is asked again: %v", err)
	}
}

// At a start accesses wait for who is about to ask, but not long.
func TestExpected(t *testing.T) {
	a := &asks{}
	a.expect(time.Millisecond)
	for range 2 { // while somebody could come, and then
		if a.ask(t.Context(), toReach("a:1"), noLimit) {
			t.Error("nobody comes, and it is allowed")
		}
	}
	a.expect(noLimit)
	c := &clientConn{gone: make(chan struct{})}
	answer := make(chan bool, 1)
	go func() { answer <- a.ask(t.Context(), toReach("a:1"), noLimit) }()
	wait.Until(t, "it waits", a.waits)
	a.waiting(c, 0)
	if err := a.answer(c, &runtime.Answer{Question: "q2", Allow: true}); err != nil || !<-answer {
		t.Errorf("who has come is asked: %v", err)
	}
}

// While one is about to answer and add a rule, others cannot answer.
func TestClaim(t *testing.T) {
	a, c := askedBy(t)
	other := &clientConn{gone: make(chan struct{})}
	a.waiting(other, 0)
	id, answer := begin(t, a, c, t.Context(), toReach("a:1"))
	wide := &runtime.Answer{Question: id, Allow: true, Scope: runtime.ScopeSandbox}
	if _, err := a.claim(c, wide); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("no rule can allow it: %v", err)
	}
	a.open[0].Allow = "--allow-host a:1"
	if q, err := a.claim(c, wide); err != nil || q.ID != id {
		t.Fatal(q, err)
	}
	for _, v := range []*runtime.Answer{{Question: id}, {Question: id, Allow: true}} {
		if err := a.answer(other, v); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("another one answers it: %v", err)
		}
	}
	for i := range maxRefused { // that the program has tired the user is not for what is being allowed
		more, refused := begin(t, a, other, t.Context(), toReach(fmt.Sprintf("more%d:1", i)))
		if err := a.answer(other, &runtime.Answer{Question: more}); err != nil || <-refused {
			t.Error(err)
		}
	}
	a.left(other) // the last one that is asked
	if len(a.open) != 1 {
		t.Error("what is being allowed was refused, since nobody is asked")
	}
	a.waiting(other, 0)
	a.left(c) // it was killed
	if _, err := a.claim(other, wide); err != nil {
		t.Errorf("after the claimant has gone: %v", err)
	}
	if err := a.answer(other, wide); err != nil || !<-answer {
		t.Errorf("the claimant's answer: %v", err)
	}
}

func TestSecretNeedsItsPath(t *testing.T) {
	a, c := askedBy(t)
	q := &runtime.Question{Kind: runtime.AskReveal, Path: "k.pem", Secret: true, Targets: []string{"/k.pem"}}
	id, answer := begin(t, a, c, t.Context(), q)
	if err := a.answer(c, &runtime.Answer{Question: id, Allow: true}); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("without the path: %v", err)
	}
	if err := a.answer(c, &runtime.Answer{Question: id, Allow: true, Path: "k.pem"}); err != nil || !<-answer {
		t.Errorf("with the path: %v", err)
	}
}

// What waits is bounded, and so is a reply.
func TestManyQuestions(t *testing.T) {
	a, c := askedBy(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range maxWaiting {
		q := toReach(fmt.Sprintf("%d:1", i))
		q.Command = fmt.Sprintf("%02000d", i)
		all.Go(func() { a.ask(ctx, q, noLimit) })
	}
	wait.Until(t, "all wait", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.open) == maxWaiting })
	if a.ask(ctx, toReach("more:1"), noLimit) {
		t.Error("one more is allowed")
	}
	r := a.waiting(c, 0)
	if n := len(*r.Questions); n == 0 || n == maxWaiting {
		t.Errorf("a reply has %d questions of 2000 bytes", n)
	}
	if _, err := replyFrame(&boot.Reply{Questions: r.Questions}); err != nil {
		t.Error(err)
	}
	cancel()
	all.Wait()
}
