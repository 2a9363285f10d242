// Package browser drives Chromium, headless, for tests of pages.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// programs are names of Chromium in distributions.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// A Browser is a Chromium with a profile of its own.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// Start starts a browser, which ends with the test. Without Chromium the test is skipped, or fails in CI.
func Start(t testing.TB) *Browser {
	t.Helper()
	program := ""
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		testenv.Tools(t, programs[0])
	}
	options := append(append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...),
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU) // the pages are our own, and their user may have no user namespaces
	limited, end := context.WithTimeout(context.Background(), 4*wait.Limit)
	allocated, stop := chromedp.NewExecAllocator(limited, options...)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it waits for the end of the browser
		cancel()
		stop()
		end()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{t, ctx}
}

// A View is how a page is looked at.
type View struct {
	Width, Height int64 // 0: 1280 and 900
	Dark          bool
}

// A Page is a tab with a session of its own: it shares no storage with other pages.
type Page struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string // guarded by mu
	requests []string // addresses; guarded by mu
}

// Open opens a page at an address.
func (b *Browser) Open(v View, address string) *Page {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	b.t.Cleanup(cancel)
	p := &Page{TB: b.t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // without a limit, which would end the page
		b.t.Fatalf("open a page: %v", err)
	}
	go p.hear(chromedp.Console(ctx)) // ends with ctx
	if err := chromedp.Listen(ctx, p.note); err != nil {
		b.t.Fatal(err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	p.Look(v)
	p.run(chromedp.Navigate(address))
	return p
}

// watch notes what the page's policy has stopped.
const watch = `document.addEventListener("securitypolicyviolation", (e) =>
  console.error("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// hear notes what the page says of problems.
func (p *Page) hear(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return
		}
		if m.Type == "error" && m.Source != "network" || m.Type == "warning" || m.IsException() {
			p.mu.Lock()
			p.problems = append(p.problems, m.String())
			p.mu.Unlock()
		}
	}
}

// note notes requests of the page.
func (p *Page) note(event any) {
	if e, is := event.(*network.EventRequestWillBeSent); is {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests = append(p.requests, e.Request.URL)
	}
}

// Problems returns errors of scripts, and what the page's policy has stopped.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.problems...)
}

// Requests returns the addresses that the page has asked for.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.requests...)
}

// run does actions within the limit of a wait.
func (p *Page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, wait.Limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatalf("the browser: %v\nproblems of the page: %q", err, p.Problems())
	}
}

// call calls the browser about the page.
func call[P, R any](p *Page, command cdp.Command[P, R], params P) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, wait.Limit)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		p.Fatalf("the browser: %s: %v", command.Method, err)
	}
}

// value returns the value of an action.
func value[T any](p *Page, action chromedp.Action[T]) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, wait.Limit)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.Fatalf("the browser: %v\nproblems of the page: %q", err, p.Problems())
	}
	return v
}

// Look changes how the page is looked at.
func (p *Page) Look(v View) {
	p.Helper()
	if v.Width == 0 {
		v.Width, v.Height = 1280, 900
	}
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.run(chromedp.EmulateViewport(v.Width, v.Height))
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// Eval returns the value of an expression of JavaScript, of which a promise is awaited.
func Eval[T any](p *Page, expression string) T {
	p.Helper()
	return value(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Do evaluates JavaScript for what it does.
func (p *Page) Do(expression string) {
	p.Helper()
	p.run(chromedp.Evaluate[chromedp.Void](expression, chromedp.EvalAwaitPromise))
}

// Quote returns a text as a literal of JavaScript.
func Quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // no text is without JSON
	}
	return string(b)
}

// Until waits until an expression of JavaScript is true.
func (p *Page) Until(expression string) {
	p.Helper()
	end := time.Now().Add(wait.Limit / 3)
	for pause := 5 * time.Millisecond; !Eval[bool](p, "!!("+expression+")"); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("not so: %s\nproblems: %q\nthe page:\n%s", expression, p.Problems(), Eval[string](p, "document.body.innerText"))
		}
		time.Sleep(pause)
	}
}

// Shows waits until an element that matches has a text in it, and is seen.
func (p *Page) Shows(selector, text string) {
	p.Helper()
	p.Until(fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.textContent.includes(%s))", Quote(selector), Quote(text)))
}

// Click waits for an enabled element that matches and has a text in it, and clicks on it as a user does.
func (p *Page) Click(selector, text string) {
	p.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%s)].find((e) => e.checkVisibility() && !e.disabled && e.textContent.includes(%s))", Quote(selector), Quote(text))
	p.Until(find)
	at := Eval[[]float64](p, "(() => { const e = "+find+"; e.scrollIntoView({ block: 'center', behavior: 'instant' }); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
	p.run(chromedp.MouseClickXY(at[0], at[1]))
}

// Type types on what has the focus. Keys without a character are in package kb.
func (p *Page) Type(text string) {
	p.Helper()
	for _, r := range text {
		for _, e := range kb.Encode(r) {
			switch e.Type {
			case kb.KeyChar: // it comes with the key: by itself it would come too if the page keeps the key
				continue
			case kb.KeyDown, kb.KeyRawDown:
				e.Type = kb.KeyDown
				if e.Text = string(r); r < ' ' && r != '\r' || r > 0xe000 {
					e.Text, e.Type = "", kb.KeyRawDown
				}
			}
			call(p, input.DispatchKeyEvent, *e)
		}
	}
}

// Enter is the key of that name, and Tab.
const (
	Enter = kb.Enter
	Tab   = kb.Tab
	F6    = kb.F6
)

// Fill focuses an input, and types a text into it in place of what it has.
func (p *Page) Fill(selector, text string) {
	p.Helper()
	p.Until("document.querySelector(" + Quote(selector) + ")")
	p.Do("(() => { const e = document.querySelector(" + Quote(selector) + "); e.focus(); e.select?.(); })()")
	p.Type(text)
}

// Go goes to another address, or place of the page.
func (p *Page) Go(address string) {
	p.Helper()
	p.run(chromedp.Navigate(address))
}

// Picture returns the page as PNG.
func (p *Page) Picture() []byte {
	p.Helper()
	return value(p, chromedp.CaptureScreenshot())
}

// busy returns how long the page's main thread has worked.
func (p *Page) busy() time.Duration {
	p.Helper()
	call(p, performance.Enable, performance.EnableParams{})
	ctx, cancel := context.WithTimeout(p.ctx, wait.Limit)
	defer cancel()
	r, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		p.Fatal(err)
	}
	for _, m := range r.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	return 0
}
