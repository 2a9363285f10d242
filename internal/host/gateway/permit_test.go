package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/internal/test/wait"
	"wolffia/network"
)

// A question of a test's gateway.
type question struct {
	egress.Event
	ctx    context.Context
	answer chan bool
}

// askingWorld is newWorld whose gateway asks.
func askingWorld(t *testing.T, allowed ...string) (*world, chan question) {
	t.Helper()
	asked := make(chan question)
	w := newWorld(t, network.Policy{Allow: allowed, Ask: true}, func(o *Options) {
		o.Ask = func(ctx context.Context, e egress.Event) bool {
			q := question{e, ctx, make(chan bool, 1)}
			select {
			case asked <- q:
			case <-ctx.Done():
				return false
			}
			select {
			case ok := <-q.answer:
				return ok
			case <-ctx.Done():
				return false
			}
		}
	})
	return w, asked
}

func next(t *testing.T, asked chan question, want string) question {
	t.Helper()
	select {
	case q := <-asked:
		if q.Name != want || q.Reason != egress.ReasonUnanswered {
			t.Errorf("asked %+v, want %s", q.Event, want)
		}
		return q
	case <-time.After(wait.Limit):
		t.Fatalf("%s: nobody is asked", want)
		panic("unreachable")
	}
}

// A connection waits for the answer, with what it has sent: by the address of the name, which is there
// at once, and by each proxy. The answer is for that connection.
func TestAsks(t *testing.T) {
	checkLeaks(t)
	w, asked := askingWorld(t)
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	w.page("page.example", "93.184.216.35", nil)
	c := w.name("git.example", 22)
	_, _ = io.WriteString(c, "early ")
	q := next(t, asked, "git.example")
	w.undialled()
	q.answer <- true
	_, _ = io.WriteString(c, "late")
	_ = c.CloseWrite()
	if got := w.ended(c); got != "early late" {
		t.Errorf("got %q", got)
	}
	if e := w.expect(egress.ReasonAnswered); e.Name != "git.example" || e.Port != 22 {
		t.Errorf("the log has %+v", e)
	}
	again := w.name("git.example", 22)
	next(t, asked, "git.example").answer <- false
	if got := w.ended(again); got != "" {
		t.Errorf("refused, and it sends %q", got)
	}
	w.expect(egress.ReasonUnanswered)
	for _, allowed := range []bool{true, false} {
		c := w.name("page.example", 80)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: page.example\r\nConnection: close\r\n\r\n")
		next(t, asked, "page.example").answer <- allowed
		if got := w.ended(c); strings.Contains(got, "page.example page.example") != allowed {
			t.Errorf("allowed %v: %q", allowed, got)
		}
	}
	proxy := w.connect(AddrHTTP.Addr(), AddrHTTP.Port())
	_, _ = io.WriteString(proxy, "GET http://page.example/ HTTP/1.1\r\nHost: page.example\r\nConnection: close\r\n\r\n")
	next(t, asked, "page.example").answer <- true
	if got := w.ended(proxy); !strings.Contains(got, "page.example page.example") {
		t.Errorf("by the proxy: %q", got)
	}
	tunnel := w.connect(AddrHTTP.Addr(), AddrHTTP.Port())
	_, _ = io.WriteString(tunnel, "CONNECT git.example:22 HTTP/1.1\r\nHost: git.example:22\r\n\r\n")
	next(t, asked, "git.example").answer <- false
	if got := w.ended(tunnel); !strings.Contains(got, http.StatusText(http.StatusForbidden)) {
		t.Errorf("by a tunnel, refused: %q", got)
	}
	socks := w.connect(AddrSOCKS.Addr(), AddrSOCKS.Port())
	_, _ = io.WriteString(socks, "\x05\x01\x00\x05\x01\x00\x03\x0bgit.example\x00\x16hi")
	next(t, asked, "git.example").answer <- true
	_ = socks.CloseWrite()
	if got := w.ended(socks); !strings.HasSuffix(got, "hi") {
		t.Errorf("by SOCKS: %q", got)
	}
}

// What a rule allows is not asked for, nor what no name can be; a program that hangs up withdraws the
// question, and a rule that is added meanwhile is what counts.
func TestAskEnds(t *testing.T) {
	checkLeaks(t)
	w, asked := askingWorld(t, "known.example")
	w.page("known.example", "93.184.216.36", nil)
	c := w.name("known.example", 80)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: known.example\r\nConnection: close\r\n\r\n")
	if got := w.ended(c); !strings.Contains(got, "known.example") {
		t.Errorf("allowed by a rule: %q", got)
	}
	gone := w.name("gone.example", 22)
	q := next(t, asked, "gone.example")
	_ = gone.Close()
	select {
	case <-q.ctx.Done():
	case <-time.After(wait.Limit):
		t.Error("the program has hung up, and the question waits")
	}
	w.plain("later.example", 22, "93.184.216.37", func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	later := w.name("later.example", 22)
	q = next(t, asked, "later.example")
	p := network.Policy{Allow: []string{"later.example:22"}, Ask: true}
	compiled, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.g.SetPolicy(compiled); err != nil {
		t.Fatal(err)
	}
	q.answer <- true
	_, _ = io.WriteString(later, "x")
	_ = later.CloseWrite()
	if got := w.ended(later); got != "x" {
		t.Errorf("after a rule: %q", got)
	}
	for _, e := range w.events {
		if e.Reason == egress.ReasonAnswered {
			t.Errorf("a rule allows it, and the log has %+v", e)
		}
	}
	closing := w.name("closing.example", 22)
	next(t, asked, "closing.example")
	_ = w.g.Close()
	w.ended(closing)
}

// A question is widened to a domain only if that is of one owner.
func TestPrivateDomains(t *testing.T) {
	for name, want := range map[string]bool{
		"api.shop.example": true, "shop.example": false, "localhost": false, "www.shop.co.uk": true, "shop.co.uk": false,
		"me.github.io": false, "a.me.github.io": true, "bucket.s3.amazonaws.com": false, "shop.kobe.jp": false,
		"a.shop.kobe.jp": false, "a.b.shop.kobe.jp": true, "192.0.2.7": false, "2001:db8::1": false,
	} {
		if got := private(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
	w, asked := askingWorld(t)
	for name, want := range map[string]bool{"www.shop.example": true, "shop.co.uk": false} {
		proxy := w.connect(AddrHTTP.Addr(), AddrHTTP.Port())
		_, _ = io.WriteString(proxy, "CONNECT "+name+":22 HTTP/1.1\r\nHost: "+name+":22\r\n\r\n")
		q := next(t, asked, name)
		if q.Wide != want {
			t.Errorf("the question about %s: %+v", name, q.Event)
		}
		q.answer <- false
		w.ended(proxy)
	}
}
