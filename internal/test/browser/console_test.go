package browser

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"wolffia/internal/sys/proc"
	"wolffia/internal/test/servetest"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

var pictures = flag.String("pictures", "", "a directory for pictures of each view, in three widths and both schemes")

// lines returns a text with a line for each number up to n.
func lines(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// quiet checks that no script ran that is not the page's, that nothing was thrown, and that the policy of
// the page had nothing to stop.
func (p *Page) quiet() {
	p.Helper()
	if Eval[bool](p, "'__pwned' in window") {
		p.Error("a text was executed")
	}
	if problems := p.Problems(); len(problems) > 0 {
		p.Errorf("problems of the page: %q", problems)
	}
}

// show goes to a place of the page.
func (p *Page) show(place string) {
	p.Helper()
	p.Do("location.hash = " + Quote(place))
}

// A finding is a violation that axe-core has found.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// accessible checks that axe-core finds nothing serious.
func (p *Page) accessible(script, what string) {
	p.Helper()
	if !Eval[bool](p, "'axe' in window") {
		p.Do(script)
	}
	raw := Eval[string](p, `axe.run(document, { resultTypes: ["violations"], exclude: [".xterm"] }).then((r) => JSON.stringify(r.violations))`)
	var found []finding
	if err := json.Unmarshal([]byte(raw), &found); err != nil {
		p.Fatal(err)
	}
	for _, f := range found {
		if f.Impact != "serious" && f.Impact != "critical" {
			continue
		}
		p.Errorf("%s: axe-core: %s: %s (%s)", what, f.ID, f.Help, f.Impact)
		for _, n := range f.Nodes[:min(3, len(f.Nodes))] {
			p.Logf("%s\n%s", n.HTML, n.FailureSummary)
		}
	}
}

// picture writes pictures of what is shown, if the flag asks for them.
func (p *Page) picture(name string) {
	p.Helper()
	if *pictures == "" {
		return
	}
	for _, v := range []View{{Width: 1440, Height: 900}, {Width: 1024, Height: 768}, {Width: 375, Height: 812}} {
		for _, v.Dark = range []bool{false, true} {
			p.Look(v)
			scheme := map[bool]string{false: "light", true: "dark"}[v.Dark]
			file := filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, v.Width, scheme))
			if err := os.WriteFile(file, p.Picture(), 0o644); err != nil {
				p.Fatal(err)
			}
		}
	}
	p.Look(View{})
}

// Each view shows what the sandbox is, does, was refused and has changed, and is for all to read.
func TestViews(t *testing.T) {
	w := newWorld(t, map[string]string{"src/cart.js": lines(60), "README.md": "# Shop\n", ".env": "KEY=1\n", "docs/a.md": "a\n"})
	id := w.wolffia("create", "--cow", "--name", "shop-fix", "--no-git-monitor")
	other := w.wolffia("create", "--name", "docs", "--network", "filtered", "--allow-host", "docs.example")
	w.inside(id, "sed -i '5s/.*/const five = 5;/; 50s/.*/const fifty = 50;/' src/cart.js; rm docs/a.md; echo new >src/new.js; cat .env; true")
	w.inside(other, "cat .env; true")
	script := axe(t)
	w.serve()
	b := Start(t)
	p := b.Open(View{}, w.address)
	p.Shows(".linkstate", "live")
	if at := Eval[string](p, "location.href + history.length"); strings.Contains(at, "token") {
		t.Errorf("the address still has the token: %s", at)
	}
	tried := map[string]bool{}
	for _, v := range []struct{ name, at, selector, text string }{
		{"list", "#/", "tr[data-state=running] .name", "shop-fix"},
		{"list", "#/", ".sandboxes", "docs"},
		{"overview", place("s", id), ".facts", w.codebase},
		{"overview", place("s", id), ".denial", ".env"},
		{"terminal", place("s", id, "terminal"), "button", "Start a shell"},
		{"jobs", place("s", id, "jobs"), "button", "Run"},
		{"files", place("s", id, "files"), ".files", "README.md"},
		{"changes", place("s", id, "changes"), ".tree", "new.js"},
		{"changes", place("s", id, "changes"), ".sides td.plus", "const five = 5;"},
		{"snapshots", place("s", id, "changes", "snapshots"), "button", "Keep a snapshot"},
		{"denied", place("s", id, "denied"), ".denial .remedy", "policy add"},
		{"rules", place("s", id, "rules"), "h2", "Rules of this sandbox"},
		{"rules", place("s", other, "rules"), "h2", "Network"},
		{"refused", "#/refused", ".denial .from", "docs"},
		{"audit", "#/audit", "h1", "Audit"},
	} {
		p.show(v.at)
		if v.selector == ".sides td.plus" {
			p.Click(".tree button.link", "cart.js")
		}
		p.Shows(v.selector, v.text)
		if tried[v.name+v.at] {
			continue
		}
		tried[v.name+v.at] = v.name != "changes" // it shows more the second time
		p.accessible(script, v.name)
		p.Look(View{Dark: true})
		p.accessible(script, v.name+", dark")
		p.Look(View{Width: 375, Height: 812})
		if wide := Eval[int](p, "document.documentElement.scrollWidth"); wide > 375 {
			t.Errorf("%s: it is %d pixels wide on a screen of 375", v.name, wide)
		}
		p.Look(View{})
		p.picture(v.name)
	}
	p.quiet()
	for _, address := range p.Requests() {
		if strings.HasPrefix(address, "data:") {
			continue // an icon of the browser's own controls
		}
		if u, err := url.Parse(address); err != nil || !strings.HasPrefix(w.address, "http://"+u.Host+"/") || strings.Contains(address, w.token()) {
			t.Errorf("the page has asked for %s", address)
		}
	}
}

// token returns the token of the page.
func (w *world) token() string {
	_, token, _ := strings.Cut(w.address, "#token=")
	return token
}

// What is done on the page happens to the sandbox.
func TestLifecycle(t *testing.T) {
	w := newWorld(t, nil)
	id := w.wolffia("create", "--name", "box")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.show(place("s", id))
	p.Click("button", "Stop")
	p.Click("dialog button.primary", "Stop")
	p.Shows(".word", "stopped")
	p.Click("button", "Start")
	p.Shows(".word", "running")
	p.show(place("s", id, "jobs"))
	p.Fill("form.run input", "echo one; sleep 1000"+Enter)
	p.Shows(".job .output", "one")
	p.Click("button", "Terminate")
	p.Shows(".jobs", "ended")
	p.show(place("s", id))
	p.Click("button.danger", "Destroy")
	p.Until("document.querySelector('dialog button.danger').disabled")
	p.Type("bo")
	p.Until("document.querySelector('dialog button.danger').disabled")
	p.Type("x")
	p.Click("dialog button.danger", "Destroy")
	p.Shows(".empty", "No sandboxes")
	if list := w.wolffia("ls", "-q"); list != "" {
		t.Errorf("wolffia ls shows %q", list)
	}
	p.quiet()
}

// screen is what a terminal shows.
const screen = "document.querySelector('.xterm-rows')?.innerText"

// Two browsers have the same terminal: both see it all, and each may type.
func TestTerminal(t *testing.T) {
	w := newWorld(t, nil)
	id := w.wolffia("create", "--name", "box")
	w.serve()
	b := Start(t)
	one := b.Open(View{}, w.address)
	one.show(place("s", id, "terminal"))
	one.Click("button", "Start a shell")
	one.Shows("[role=status]", "connected")
	one.Type("echo first-$((20+22))" + Enter)
	one.Until(screen + "?.includes('first-42')")
	two := b.Open(View{}, w.address)
	two.show(place("s", id, "terminal"))
	two.Shows("[role=status]", "connected")
	two.Until(screen + "?.includes('first-42')")
	two.Type("echo second-$((20+22))" + Enter)
	for _, p := range []*Page{one, two} {
		p.Until(screen + "?.includes('second-42')")
	}
	two.Shows(".bar", "2 viewers")
	// The keyboard leaves the terminal.
	two.Type(F6)
	two.Until("document.activeElement.matches('select')")
	two.Do("document.querySelector('.xterm textarea').focus()")
	two.Type("exit" + Enter)
	for _, p := range []*Page{one, two} {
		p.Shows("[role=status]", "The shell has ended")
		p.quiet()
	}
}

// The rules are edited, and explain a path as they are and as they would be.
func TestRules(t *testing.T) {
	w := newWorld(t, map[string]string{"docs/a.md": "a\n", ".env": "KEY=1\n"})
	id := w.wolffia("create", "--name", "box")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.show(place("s", id, "rules"))
	p.Fill(".editor input", "docs/a.md")
	p.Shows(".explained", "now write")
	p.Fill(".editor textarea", "docs/**=reed")
	p.Shows(".problems", "Line 1")
	p.Until("document.querySelector('.editor .primary').disabled")
	p.Fill(".editor textarea", "docs/**=read")
	p.Shows(".then", "read")
	p.Click(".editor .primary", "Save rules")
	p.Shows(".notice", "bind now")
	w.inside(id, "! echo b >docs/a.md")
	p.quiet()
}

// Texts of a sandbox are shown as text, whatever they are.
func TestHostile(t *testing.T) {
	const script = `<img src=x onerror="window.__pwned=1">`
	const name = "\u202egnp<img src=x onerror=window.__pwned=1>\x1b]0;t\x07.md"
	w := newWorld(t, map[string]string{"a.md": lines(3), ".env": "KEY=1\n"})
	id := w.wolffia("create", "--cow", "--name", "box", "--label", "note="+script)
	quoted := strings.ReplaceAll(name, "'", "")
	w.inside(id, "printf '%s\\n' '"+script+"' '[a](javascript:window.__pwned=1)' >>a.md; cp a.md '"+quoted+"'; mkdir -p .git/hooks '<script>window.__pwned=1<'; "+
		"cp a.md '<script>window.__pwned=1</script>'; cp /bin/cat '/tmp/<svg onload=window.__pwned=1>'; '/tmp/<svg onload=window.__pwned=1>' .env; true")
	w.serve()
	b := Start(t)
	p := b.Open(View{}, w.address)
	p.Shows(".name", "box")
	for _, v := range []struct{ at, selector, text string }{
		{place("s", id), ".facts", script},
		{place("s", id), ".denial", "<svg onload"},
		{place("s", id, "denied"), ".denial", "<svg onload"},
		{"#/refused", ".denial", "<svg onload"},
		{place("s", id, "files", w.codebase), ".files .odd", `\u202e`},
		{place("s", id, "changes"), ".tree .odd", `\x1b`},
		{place("s", id, "changes"), ".sides td.plus", script},
	} {
		p.show(v.at)
		p.Shows(v.selector, v.text)
	}
	p.show(place("s", id, "files", w.codebase))
	p.Click(".files button.link", "a.md")
	p.Shows(".output", "javascript:")
	p.Until("!document.querySelector('.output a, .output img, .denial img, .tree img')")

	p.show(place("s", id, "jobs"))
	p.Fill("form.run input", `printf '\033]0;title\007\033[31m%s\033[0m\n' '`+script+`'`+Enter)
	p.Shows(".job .output", script)

	p.show(place("s", id, "terminal"))
	p.Click("button", "Start a shell")
	p.Shows("[role=status]", "connected")
	title := Eval[string](p, "document.title")
	attack := `printf '\033]0;pwned\007\033]2;pwned\007\033]52;c;cHduZWQ=\007\033]8;;javascript:window.__pwned=1\007link\033]8;;\007%s\033]1337;File=inline=1:aaaa\007\033Pq#0\033\\\033[21t\033[8;9999;9999t\n' '` + script + `'; echo do'ne'`
	p.Type(attack + Enter)
	p.Until(screen + "?.includes('done')")
	p.Until(screen + "?.includes(" + Quote(script) + ")")
	if now := Eval[string](p, "document.title"); now != title {
		t.Errorf("the title is %q, and was %q", now, title)
	}
	p.Do("[...document.querySelectorAll('.xterm-rows span')].filter((e) => e.textContent.includes('link')).forEach((e) => e.click())")
	if n := Eval[int](p, "document.querySelectorAll('.xterm a, .xterm img').length"); n != 0 {
		t.Errorf("the terminal has %d links and pictures", n)
	}
	p.quiet()
}

// All can be done by keys.
func TestKeys(t *testing.T) {
	w := newWorld(t, nil)
	w.wolffia("create", "--name", "one")
	w.wolffia("create", "--name", "two")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.Shows(".name", "one")
	p.Type("?")
	p.Shows("dialog", "go to the audit log")
	p.Type("\x1b")
	p.Until("!document.querySelector('dialog')")
	p.Type("/one")
	p.Until("document.querySelectorAll('.sandboxes tbody tr').length === 1")
	p.Type(Enter)
	p.Shows("h1", "one")
	p.Type("7")
	p.Shows("h2", "Rules of this sandbox")
	p.Type("u")
	p.Shows(".name", "two")
	p.Type("jj" + Enter)
	p.Shows("h1", "one")
	p.Type("ga")
	p.Shows("h1", "Audit")
	// The first stop of Tab leads to the content, and where the focus is can be seen.
	address, _, _ := strings.Cut(w.address, "#")
	p.Go(address)
	p.Shows(".name", "two")
	p.Type(Tab)
	p.Until("document.activeElement.matches('.skip') && getComputedStyle(document.activeElement).outlineStyle !== 'none'")
	p.quiet()
}

// A service is killed: the page says so, and goes on with the next one.
func TestReconnect(t *testing.T) {
	const key = "0123456789abcdef-of-all"
	p := servetest.NewProcess(t, key+"\n0123456789abcdef-of-zoe acme/web/zoe\n0123456789abcdef-of-yan acme/web/yan\n", "--console")
	p.Listen = p.Address
	body := `{"organizationId":"acme","projectId":"web","userId":"zoe"}`
	status, _, text := p.Do("POST", "/api/v1/createSandbox", strings.NewReader(body), "Content-Type", "application/json", "X-API-Key", key)
	if status != 201 {
		t.Fatalf("createSandbox: %d %s", status, text)
	}
	var made struct{ SandboxID string }
	p.OK(json.Unmarshal([]byte(text), &made))
	b := Start(t)
	page := b.Open(View{}, "http://"+p.Address+"/console/")
	page.Fill("input[type=password]", "wrong"+Enter)
	page.Shows(".problem", "not valid")
	page.Fill("input[type=password]", key+Enter)
	page.Shows(".sub", "acme/web/zoe")
	page.show(place("s", made.SandboxID, "terminal"))
	page.Click("button", "Start a shell")
	page.Shows("[role=status]", "connected")
	page.Type("echo before-$((1+1))" + Enter)
	page.Until(screen + "?.includes('before-2')")
	p.Kill()
	page.Shows(".linkstate", "no connection")
	page.Shows(".tab [role=status]", "no connection")
	p.Start()
	page.Shows(".linkstate", "live")
	page.Until("[...document.querySelectorAll('.tab [role=status]')].some((e) => e.textContent === 'connected')")
	page.Do("document.querySelector('.xterm textarea').focus()")
	page.Type("echo after-$((1+1))" + Enter)
	page.Until(screen + "?.includes('after-2')")
	if !Eval[bool](page, screen+".includes('before-2')") {
		t.Error("what the terminal had shown before is lost")
	}
	if n := Eval[int](page, screen+".split('before-2').length - 1"); n != 1 {
		t.Errorf("the terminal shows the output before %d times", n)
	}

	// Another owner's key shows nothing of it.
	other := b.Open(View{}, "http://"+p.Address+"/console/")
	other.Fill("input[type=password]", "0123456789abcdef-of-yan"+Enter)
	other.Shows(".empty", "No sandboxes")
	other.show(place("s", made.SandboxID))
	other.Shows(".empty", "There is no sandbox")
	for _, at := range []string{"", "/files", "/sessions", "/denied", "/rules", "/history"} {
		got := Eval[int](other, "fetch('api/sandboxes/"+made.SandboxID+at+"', { headers: { Authorization: 'Bearer ' + sessionStorage.getItem('wolffia.token') } }).then((r) => r.status)")
		if got != 404 && got != 403 {
			t.Errorf("another owner's key gets %d for %q", got, at)
		}
	}
	if text := Eval[string](other, "document.body.innerText"); strings.Contains(text, "acme/web/zoe") {
		t.Errorf("another owner's key shows %s", text)
	}
}

// A hundred sandboxes are shown soon, and a page at rest does nothing.
func TestManySandboxes(t *testing.T) {
	w := newWorld(t, nil)
	rt, err := local.New(&local.Options{StateDir: w.state, Binary: w.program()}, bwrap.Backend())
	w.OK(err)
	t.Cleanup(func() { w.OK(rt.Close()) })
	var making sync.WaitGroup
	for n := range 10 {
		making.Go(func() {
			for i := range 10 {
				_, err := rt.Create(w.Ctx, &runtime.SandboxConfig{
					Name: fmt.Sprintf("box-%d", 10*n+i), CodebasePath: w.codebase,
					Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write, Source: "preset full-access"}},
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	making.Wait()
	t.Log("made")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.Until("document.querySelectorAll('.sandboxes tbody tr').length === 100")
	address, _, _ := strings.Cut(w.address, "#")
	p.Go(address) // again, with what the browser has
	p.Until("document.querySelectorAll('.sandboxes tbody tr').length === 100")
	t.Logf("the list was drawn %.0f ms after the page was asked for, the first of it after %.0f ms",
		Eval[float64](p, "performance.getEntriesByName('listed')[0]?.startTime ?? 0"), Eval[float64](p, "performance.getEntriesByType('paint').at(-1)?.startTime ?? 0"))
	before := p.Requests()
	busy, served := p.busy(), w.serverTicks()
	p.Do("new Promise((done) => setTimeout(done, 5000))")
	t.Logf("in 5 s at rest the page was busy for %v, and its server for %d ms", p.busy()-busy, 10*(w.serverTicks()-served))
	if after := p.Requests(); len(after) != len(before) {
		t.Errorf("a page at rest has asked for %q", slices.Clone(after[len(before):]))
	}
	if n := Eval[int](p, "document.getAnimations().length"); n != 0 {
		t.Errorf("a page at rest has %d animations", n)
	}
	p.quiet()
}

// serverTicks returns how long the server has computed, in clock ticks.
func (w *world) serverTicks() uint64 {
	w.Helper()
	p, err := proc.Read(w.server)
	w.OK(err)
	return p.CPU
}
