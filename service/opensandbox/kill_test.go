package opensandbox_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// An acknowledged sandbox is what a client has been told of one.
type acknowledged struct {
	key, id, name string
	expires       time.Time
	deleting      bool   // asked for
	deleted       bool   // acknowledged
	command       string // in the background
	session       string
	value         int  // of the session's A
	written       bool // the file in /tmp
}

// A killedClient works with sandboxes until the service does not answer any more.
type killedClient struct {
	w    *servetest.Process
	n    int
	key  string
	all  []*acknowledged
	acks *atomic.Int64
}

// do sends a request; ok is false if there was no answer.
func (c *killedClient) do(method, path, body string, status int) (text string, ok bool) {
	req, err := http.NewRequestWithContext(c.w.Ctx, method, "http://"+c.w.Address+path, strings.NewReader(body))
	if err != nil {
		c.w.Error(err)
		return "", false
	}
	req.Header.Set("OPEN-SANDBOX-API-KEY", c.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.w.Client.Do(req)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return "", false
	}
	if res.StatusCode != status {
		c.w.Errorf("%s %s %s: %d %s, want %d", method, path, body, res.StatusCode, b, status)
		return "", false
	}
	c.acks.Add(1)
	return string(b), true
}

// work makes sandboxes, uses them, and destroys every third, until the service is gone.
func (c *killedClient) work() {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%d-%d", c.n, n)
		text, ok := c.do("POST", "/v1/sandboxes", fmt.Sprintf(`{"image":{"uri":"host"},"timeout":600,"metadata":{"name":%q}}`, name), 202)
		if !ok {
			return
		}
		var s sandbox
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			c.w.Error(err)
			return
		}
		a := &acknowledged{key: c.key, id: s.ID, name: name}
		c.all = append(c.all, a)
		execd := "/sandboxes/" + s.ID + "/port/44772"
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		if _, ok = c.do("POST", "/v1/sandboxes/"+s.ID+"/renew-expiration", `{"expiresAt":"`+until.Format(time.RFC3339Nano)+`"}`, 200); !ok {
			return
		}
		a.expires = until
		if text, ok = c.do("POST", execd+"/command", `{"command":"echo begun; sleep 1000","background":true}`, 200); !ok {
			return
		}
		_, text, _ = strings.Cut(text, `"init","text":"`)
		a.command, _, _ = strings.Cut(text, `"`)
		if text, ok = c.do("POST", execd+"/session", "", 200); !ok {
			return
		}
		a.session = strings.Split(text, `"`)[3]
		for v := 1; v <= 3; v++ {
			if text, ok = c.do("POST", execd+"/session/"+a.session+"/run", fmt.Sprintf(`{"command":"A=%d"}`, v), 200); !ok || !strings.Contains(text, "execution_complete") {
				return
			}
			a.value = v
		}
		if text, ok = c.do("POST", execd+"/command", `{"command":"echo `+name+` >/tmp/kept"}`, 200); !ok || !strings.Contains(text, "execution_complete") {
			return
		}
		a.written = true
		if n%3 == 2 {
			a.deleting = true
			if _, ok = c.do("DELETE", "/v1/sandboxes/"+s.ID, "", 204); !ok {
				return
			}
			a.deleted = true
		}
	}
}

// A service that is killed under load loses nothing that it has acknowledged.
func TestKilledUnderLoad(t *testing.T) {
	p := servetest.NewProcess(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n"+keyYan+" acme/web/yan\n")
	var acks atomic.Int64
	var known []*acknowledged
	for round := range testenv.Some(8) {
		enough := acks.Load() + int64(20+13*round) // at another place each time
		clients := make([]*killedClient, 4)
		var all sync.WaitGroup
		for n := range clients {
			clients[n] = &killedClient{w: p, n: 10*round + n, key: []string{keyZoe, keyYan}[n%2], acks: &acks}
			all.Go(clients[n].work)
		}
		p.Until("they work", func() bool { return acks.Load() >= enough || t.Failed() })
		p.Kill()
		all.Wait()
		for _, c := range clients {
			known = append(known, c.all...)
		}
		p.Start()
		begun := 0
		for _, a := range known {
			if a.check(&world{p.World}) {
				begun++
			}
		}
		t.Logf("round %d: %d acknowledged, %d sandboxes of %d live", round, acks.Load(), begun, len(known))
	}
}

// check checks a sandbox after a kill, and reports whether it lives.
func (a *acknowledged) check(w *world) bool {
	w.Helper()
	other := map[string]string{keyZoe: keyYan, keyYan: keyZoe}[a.key]
	as, path, execd := []string{"OPEN-SANDBOX-API-KEY", a.key}, "/v1/sandboxes/"+a.id, "/sandboxes/"+a.id+"/port/44772"
	if status, text := w.call("GET", path, "", as...); a.deleted || a.deleting && (status == 404 || !strings.Contains(text, `"Running"`)) {
		if a.deleted && status != 404 {
			w.Errorf("%s was deleted: %d %s", a.id, status, text)
		}
		return false
	}
	text := w.is("GET", path, "", 200, `"metadata":{"name":"`+a.name+`"}`, as...)
	var s struct{ State, ExpiresAt string }
	w.OK(json.Unmarshal([]byte(text), &s))
	at, err := time.Parse(time.RFC3339Nano, s.ExpiresAt)
	if err != nil || s.State != "Running" || !a.expires.IsZero() && a.expires.Sub(at).Abs() > time.Second {
		w.Errorf("%s: %s, want the end %v", a.id, text, a.expires)
	}
	w.is("GET", path, "", 404, "", "OPEN-SANDBOX-API-KEY", other)
	if a.command != "" {
		w.is("GET", execd+"/command/status/"+a.command, "", 200, `"running":true`, as...)
		_, _, logs := w.Do("GET", execd+"/command/"+a.command+"/logs", nil, as...)
		if logs != "begun\n" && logs != "" { // or it has not come to that
			w.Errorf("%s: the background command says %q", a.id, logs)
		}
	}
	if a.session != "" {
		text := w.is("POST", execd+"/session/"+a.session+"/run", `{"command":"echo A is $A"}`, 200, "execution_complete", as...)
		is := func(v int) bool { return strings.Contains(text, fmt.Sprintf(`"A is %d"`, v)) }
		if !is(a.value) && !is(a.value+1) && (a.value > 0 || !strings.Contains(text, `"A is"`)) { // or what was not acknowledged was done
			w.Errorf("%s: A was %d: %s", a.id, a.value, text)
		}
	}
	if a.written {
		w.is("POST", execd+"/command", `{"command":"cat /tmp/kept"}`, 200, `"text":"`+a.name+`"`, as...)
	}
	return true
}
