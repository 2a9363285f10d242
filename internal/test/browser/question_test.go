package browser

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

// asks starts a script that asks, and returns a function that waits for its end, and returns its output and
// whether it has succeeded.
func (w *world) asks(id, script string) (wait func() (string, bool)) {
	w.Helper()
	cmd := w.command("exec", id, "--", "sh", "-c", script)
	var out strings.Builder
	cmd.Stdout = &out
	w.OK(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the script, or the test's context
	return func() (string, bool) {
		err := <-ended
		ended <- err
		return out.String(), err == nil
	}
}

// asked is asks once a page shows the question.
func (w *world) asked(p *Page, id, script string) (wait func() (string, bool)) {
	w.Helper()
	wait = w.asks(id, script)
	p.Until("document.querySelector('.question')?.checkVisibility() ?? false")
	return wait
}

// A question about the network is answered on a page: what asked goes on.
func TestQuestion(t *testing.T) {
	w := newWorld(t, nil)
	testenv.Tools(t, "curl")
	shop := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "open") }))
	t.Cleanup(shop.Close)
	host, port, err := net.SplitHostPort(shop.Listener.Addr().String())
	w.OK(err)
	args := []string{"create", "--name", "box", "--ask", "network"}
	for _, name := range []string{"a", "b", "c", "d"} {
		args = append(args, "--add-host", name+".shop.example:"+host)
	}
	id := w.wolffia(args...)
	get := func(name string) string { return "curl -sS http://" + name + ".shop.example:" + port + "/" }
	w.serve()
	b := Start(t)
	one, two := b.Open(View{}, w.address), b.Open(View{}, w.address)
	two.show("#/audit")
	one.Shows(".linkstate", "live")
	two.Shows(".linkstate", "live")
	script := axe(t)

	// Once, by one of two browsers, in whatever view.
	wait := w.asked(one, id, get("a"))
	for _, p := range []*Page{one, two} {
		p.Shows(".question", "a.shop.example:"+port)
		p.Until("document.title.startsWith('(1) ')")
	}
	one.accessible(script, "a question")
	one.picture("question")
	one.Click(".question button", "Once")
	if out, ok := wait(); !ok || out != "open\n" {
		t.Errorf("what was allowed prints %q", out)
	}
	for _, p := range []*Page{one, two} {
		p.Until("document.querySelector('.questions').hidden")
	}

	// No, and do not ask again.
	wait = w.asked(one, id, get("b"))
	one.Click(".question button", "do not ask again")
	for range 2 {
		if out, _ := wait(); strings.Contains(out, "open") {
			t.Errorf("what was refused prints %q", out)
		}
		wait = w.asks(id, get("b"))
	}
	wait()
	one.Until("document.querySelector('.questions').hidden")

	// Wider, which is shown before, and is not for once.
	wait = w.asked(one, id, get("c"))
	one.Click(".question label", "*.shop.example")
	one.Shows(".preview", "all hosts below the domain")
	one.Until("document.querySelector('.question .group button').disabled")
	one.Click(".question button", "This sandbox")
	for range 2 {
		if out, ok := wait(); !ok || out != "open\n" {
			t.Errorf("what was allowed prints %q", out)
		}
		wait = w.asks(id, get("d"))
	}
	wait()
	one.quiet()
	two.quiet()
}

// A question about a file is answered on a page; what reveals a secret takes its name typed.
func TestFileQuestion(t *testing.T) {
	w := newWorld(t, map[string]string{"docs/a.md": "a\n", "docs/b.md": "b\n", "docs/c.md": "c\n", "keys/token": "s3cret\n"})
	id := w.wolffia("create", "--name", "box", "--ask", "write,reveal", "--rule", "docs/**=read", "--reveal", "/keys/=ask")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.Shows(".linkstate", "live")

	wait := w.asked(p, id, "echo once >docs/a.md")
	p.Shows(".question", "docs/a.md")
	p.Click(".question button", "Once")
	if _, ok := wait(); !ok {
		t.Error("what was allowed has failed")
	}
	w.host("docs/a.md", "once\n")
	p.Until("document.querySelector('.questions').hidden")

	wait = w.asked(p, id, "echo wide >docs/b.md")
	p.Click(".question label", "/docs/**")
	p.Shows(".preview", "the directory and all below it")
	p.Until("document.querySelector('.question .group button').disabled")
	p.Click(".question button", "This sandbox")
	if _, ok := wait(); !ok {
		t.Error("what was allowed has failed")
	}
	if _, ok := w.asks(id, "echo wide >docs/c.md")(); !ok {
		t.Error("the directory was allowed, and a file of it is not")
	}
	p.Until("document.querySelector('.questions').hidden")

	wait = w.asked(p, id, "cat keys/token")
	p.Shows(".question .warning", "reveals a secret")
	p.Until("!document.querySelector('.question .group + .group button').disabled")
	p.Until("document.querySelector('.question .group button').disabled")
	p.Fill(".question .typed input", "keys/toke")
	p.Until("document.querySelector('.question .group button').disabled")
	p.Type("n")
	p.Click(".question button", "Once")
	if out, ok := wait(); !ok || out != "s3cret\n" {
		t.Errorf("what was allowed prints %q", out)
	}
	p.quiet()
}
