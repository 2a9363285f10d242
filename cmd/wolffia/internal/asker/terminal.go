package asker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/local"
	"wolffia/runtime"
)

// keyPause is how long after a question has appeared keys are still the program's: they were meant
// for it.
const keyPause = time.Second

// A Terminal asks at the user's terminal, which a program may use too. It is safe for concurrent use.
type Terminal struct {
	h       *host.Host
	rt      *local.Runtime
	sandbox string // empty: all
	raw     bool   // the terminal does not echo, nor begin a line for us
	// Typed returns the keys until the channel is closed, while a question is on the screen; nil: the
	// caller has them pass through Keys
	Typed func(over <-chan struct{}) io.Reader

	mu      sync.Mutex
	waiting []asked
	full    fullScreen // a program draws on all of the screen: others are asked
	q       *asked     // on the screen; nil: none
	shown   time.Time
	target  int    // the index of q's target that the answer would allow
	key     byte   // of an answer that Enter completes; 0: none
	path    []byte // repeated for a secret; nil: it is not asked for
	answer  runtime.Answer
	over    chan struct{} // of Typed's reader
}

// An asked is a question of a sandbox.
type asked struct {
	sandbox string // its id
	runtime.Question
}

// is reports whether two are the same question.
func (a *asked) is(b *asked) bool { return a.sandbox == b.sandbox && a.ID == b.ID }

// NewTerminal returns a Terminal for a sandbox, or, if that is empty, for all. raw says that the terminal is in raw mode.
func NewTerminal(h *host.Host, rt *local.Runtime, sandbox string, raw bool) *Terminal {
	return &Terminal{h: h, rt: rt, sandbox: sandbox, raw: raw}
}

// Run asks until ctx ends or the sandbox stops. It calls ready, which may be nil, once the sandbox has
// somebody to ask. The error is that of [runtime.Asker].
func (t *Terminal) Run(ctx context.Context, ready func()) error {
	if t.sandbox == "" {
		return t.rt.AllQuestions(ctx, func(id string, all []runtime.Question) error {
			t.news(id, all)
			return nil
		})
	}
	return t.rt.Questions(ctx, t.sandbox, func(all []runtime.Question) error {
		if ready != nil {
			ready()
			ready = nil
		}
		t.news(t.sandbox, all)
		return nil
	})
}

// news shows the oldest question, now that all are those of a sandbox that wait.
func (t *Terminal) news(sandbox string, all []runtime.Question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(q asked) bool { return q.sandbox == sandbox })
	for _, q := range all {
		t.waiting = append(t.waiting, asked{sandbox, q})
	}
	slices.SortStableFunc(t.waiting, func(a, b asked) int { return a.Time.Compare(b.Time) })
	if t.q != nil && !slices.ContainsFunc(t.waiting, func(q asked) bool { return q.is(t.q) }) {
		t.say("nobody waits any more for the answer to " + t.q.ID)
		t.hide()
	}
	t.show()
}

// say prints a line. t.mu is held.
func (t *Terminal) say(text string) {
	if t.raw {
		t.h.SayRaw(text)
		return
	}
	t.h.Say(text)
}

// show asks the oldest question, unless one is asked. t.mu is held.
func (t *Terminal) show() {
	if t.q != nil || t.full.on || len(t.waiting) == 0 {
		return
	}
	q := t.waiting[0]
	t.q, t.shown = &q, time.Now()
	wider := ""
	if len(q.Targets) > 1 {
		wider = "  w: wider"
	}
	if t.Typed != nil {
		t.over = make(chan struct{})
		keys := t.Keys(t.Typed(t.over))
		go func() { _, _ = io.Copy(io.Discard, keys) }() // ends with hide, or the terminal
	}
	of := ""
	if t.sandbox == "" {
		of = "sandbox " + nameOf(t.rt, q.sandbox) + ": "
	}
	t.say(fmt.Sprintf("%s%s\no: once  s: for this sandbox  a: always%s  n: no  x: no, and do not ask again; then Enter. No, after %v",
		of, Sentence(&q.Question), wider, time.Until(q.Until).Round(time.Second)))
}

// nameOf returns what a sandbox is called.
func nameOf(rt *local.Runtime, id string) string {
	if b, err := rt.Get(context.Background(), id); err == nil {
		return console.Printable(b.ContainerName())
	}
	return id
}

// hide has no question on the screen. t.mu is held.
func (t *Terminal) hide() {
	t.waiting = slices.DeleteFunc(t.waiting, func(q asked) bool { return q.is(t.q) })
	t.q, t.target, t.key, t.path = nil, 0, 0, nil
	if t.over != nil {
		close(t.over)
		t.over = nil
	}
}

// Output returns a writer to the terminal, which notices programs that draw on all of it.
func (t *Terminal) Output(w io.Writer) io.Writer { return &output{t, w} }

type output struct {
	t *Terminal
	w io.Writer
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	if was := o.t.full.on; o.t.full.see(b) != was {
		o.t.show()
	}
	return n, err
}

// A fullScreen finds out whether the alternate screen is in use (xterm's ctlseqs: 47, 1047, 1049).
type fullScreen struct {
	on   bool
	tail []byte // of the last output: a sequence may be cut
}

func (f *fullScreen) see(b []byte) bool {
	b = append(f.tail, b...)
	enter, leave := -1, -1
	for _, mode := range []string{"47", "1047", "1049"} {
		enter = max(enter, bytes.LastIndex(b, []byte("\x1b[?"+mode+"h")))
		leave = max(leave, bytes.LastIndex(b, []byte("\x1b[?"+mode+"l")))
	}
	if enter != leave {
		f.on = enter > leave
	}
	f.tail = bytes.Clone(b[max(0, len(b)-len("\x1b[?1049")):])
	return f.on
}

// Keys returns a reader of what is typed, without the answers.
func (t *Terminal) Keys(from io.Reader) io.Reader { return &keys{t, from} }

type keys struct {
	t    *Terminal
	from io.Reader
}

func (k *keys) Read(b []byte) (int, error) {
	for {
		n, err := k.from.Read(b)
		left := k.t.take(b[:n])
		if n = copy(b, left); n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
	}
}

// take answers by typed keys, and returns those that are the program's: at most one more than came.
func (t *Terminal) take(typed []byte) (left []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range typed {
		switch enter := c == '\r' || c == '\n'; {
		case t.q == nil || t.full.on || t.path == nil && time.Since(t.shown) < keyPause:
			left = append(left, c)
		case t.path != nil:
			t.typePath(c)
		case t.key != 0 && enter:
			t.echo("\r\n")
			t.act()
		case t.key != 0 && (c == 0x7f || c == '\b'):
			t.echo("\b \b")
			t.key = 0
		case t.key != 0:
			left, t.key = append(left, t.key, c), 0
		case strings.IndexByte("osawnx", c) >= 0:
			t.echo(string(c))
			t.key = c
		default:
			left = append(left, c)
		}
	}
	return left
}

func (t *Terminal) echo(text string) {
	if t.raw {
		fmt.Fprint(t.h.Err, text)
	}
}

// act does what the key of an answer says. t.mu is held.
func (t *Terminal) act() {
	key := t.key
	t.key = 0
	t.answer = runtime.Answer{Question: t.q.ID, By: "the terminal"}
	switch key {
	case 'w':
		t.target = (t.target + 1) % len(t.q.Targets)
		t.say("s and a are for " + console.Printable(t.q.Targets[t.target]))
		return
	case 'x':
		t.answer.Scope = runtime.ScopeSandbox
	case 's', 'a':
		t.answer.Allow, t.answer.Target = true, t.q.Targets[t.target]
		t.answer.Scope = map[byte]string{'s': runtime.ScopeSandbox, 'a': runtime.ScopeAlways}[key]
	case 'o':
		t.answer.Allow = true
	}
	if t.answer.Allow && t.q.Secret {
		t.path = []byte{}
		t.say("it may be a secret: type its path, then Enter")
		return
	}
	t.give()
}

// typePath takes a key of the path that is repeated. t.mu is held.
func (t *Terminal) typePath(c byte) {
	switch {
	case c == '\r' || c == '\n':
		t.echo("\r\n")
		t.answer.Path = string(t.path)
		if t.path = nil; t.answer.Path != t.q.Path {
			t.say("that is another path: answer again")
			return
		}
		t.give()
	case c == 0x03: // ctrl-c
		t.path = nil
	case c == 0x7f || c == '\b':
		if len(t.path) > 0 {
			t.path = t.path[:len(t.path)-1]
			t.echo("\b \b")
		}
	case len(t.path) < 4096:
		t.path = append(t.path, c)
		t.echo(console.Printable(string(c)))
	}
}

// giveLimit is how long it may take to give an answer.
const giveLimit = 30 * time.Second

// give gives the answer. t.mu is held.
func (t *Terminal) give() {
	q, a := *t.q, t.answer
	t.hide()
	go func() { // ends within the limit
		ctx, cancel := context.WithTimeout(context.Background(), giveLimit)
		defer cancel()
		note, err := Answer(ctx, t.h, t.rt, q.sandbox, &q.Question, &a)
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case err != nil:
			t.say(console.Printable(err.Error()))
		case note != "":
			t.say(console.Printable(note))
		}
		t.show()
	}()
}
