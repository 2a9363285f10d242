package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/console"
)

// A key of one owner gets nothing of another's sandbox by any call, and cannot tell it from none.
func TestOwnersAreApart(t *testing.T) {
	w := newWorld(t)
	w.OK(os.WriteFile(codebase(w, "a"), []byte("a\n"), 0o644))
	id := box(w)
	run(w, id, "echo b > a; cat secret; true")
	absent := runtime.NewID()
	news := events(w, keyBob)
	seen := 0
	for _, c := range console.Calls() {
		method, path, _ := strings.Cut(c, " ")
		path = strings.TrimPrefix(path, "/console/api/")
		if path == "events" {
			continue
		}
		of := func(id string) (*http.Response, string) {
			at := strings.NewReplacer("{id}", id, "{name}", "shell", "{question}", "1").Replace(path) + "?path=a"
			var body any
			if method == http.MethodPost {
				body = m{}
			}
			res, text := request(w, keyBob, at, body)
			return res, strings.ReplaceAll(string(text), id, "ID")
		}
		res, text := of(id)
		if !strings.Contains(path, "{id}") {
			if strings.Contains(text, "ID") || strings.Contains(text, w.Codebase) || strings.Contains(text, "ann") {
				t.Errorf("%s: got %s", c, text)
			}
			continue
		}
		seen++
		other, nothing := of(absent)
		if res.StatusCode < 400 || res.StatusCode != other.StatusCode || text != nothing {
			t.Errorf("%s: of ann's sandbox %d %s, of none %d %s", c, res.StatusCode, text, other.StatusCode, nothing)
		}
	}
	if seen < 20 {
		t.Errorf("%d calls were tried", seen)
	}
	if b, err := w.Service.Get(w.Ctx, service.Caller{Owner: ann}, id); err != nil || b.State != runtime.StateRunning {
		t.Errorf("ann's sandbox: %+v, %v", b, err)
	}
	mine := events(w, keyAnn)
	if got := mine.until("hello", ""); !strings.Contains(got, id) || strings.Contains(got, w.Codebase+`","cow`) {
		t.Errorf("ann's hello is %s", got)
	}
	run(w, id, "cat secret; true")
	mine.until("denied", `"secret"`)
	post[m](w, keyAnn, "sandboxes/"+id+"/destroy", m{})
	mine.until("gone", id)
	his, _, err := w.Service.Create(w.Ctx, &service.Params{Owner: bob})
	w.OK(err)
	for name, data := news.next(); ; name, data = news.next() {
		if name == "" || strings.Contains(data, id) {
			t.Fatalf("bob got %s %s", name, data)
		}
		if strings.Contains(data, his.ID) {
			break
		}
	}
}

// What another page, or a name of it that leads here, asks for is refused, also by WebSocket; the
// page itself needs no key, and no reply lets another page have it.
func TestOtherPagesAreRefused(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	post[m](w, keyAnn, "sandboxes/"+id+"/sessions", m{"name": "one"})
	for what, c := range map[string]struct {
		header http.Header
		host   string
		path   string
		status int
		code   string
	}{
		"no key":           {http.Header{"Authorization": nil}, "", "api/about", 401, "unauthorized"},
		"a wrong key":      {http.Header{"Authorization": {"Bearer no"}}, "", "api/about", 401, "unauthorized"},
		"a foreign origin": {http.Header{"Origin": {"http://evil.example"}}, "", "api/about", 403, "foreignOrigin"},
		"another port":     {http.Header{"Origin": {"http://127.0.0.1:1"}}, "", "api/about", 403, "foreignOrigin"},
		"a null origin":    {http.Header{"Origin": {"null"}}, "", "api/about", 403, "foreignOrigin"},
		"a foreign host":   {nil, "evil.example", "api/about", 403, "foreignHost"},
		"the page of it":   {nil, "evil.example", "", 403, "foreignHost"},
		"a frame":          {http.Header{"Sec-Fetch-Site": {"cross-site"}}, "", "api/about", 403, "foreignOrigin"},
		"no such file":     {nil, "", "x.js", 404, "notFound"},
		"a file above":     {nil, "", "%2e%2e/console.go", 404, "notFound"},
	} {
		r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, "http://"+w.Address+"/console/"+c.path, nil)
		w.OK(err)
		r.Header.Set("Authorization", "Bearer "+keyAnn)
		for name, values := range c.header {
			r.Header[name] = values
		}
		r.Host = c.host
		res, text := send(w, r)
		var f struct{ Error struct{ Code string } }
		_ = json.Unmarshal(text, &f)
		if res.StatusCode != c.status || f.Error.Code != c.code {
			t.Errorf("%s: got %d %s; want %d %s", what, res.StatusCode, text, c.status, c.code)
		}
	}
	for _, origin := range []string{"http://evil.example", "null", "https://" + w.Address + ".evil.example"} {
		if c, res, err := dial(w, keyAnn, "sandboxes/"+id+"/sessions/one/terminal", origin); err == nil || res == nil || res.StatusCode != 403 {
			t.Errorf("a WebSocket of %s: %v, %v, %v", origin, c, res, err)
		}
	}
	if c, res, err := dial(w, "wrong-key-1234567890", "sandboxes/"+id+"/sessions/one/terminal", ""); err == nil || res == nil || res.StatusCode != 401 {
		t.Errorf("a WebSocket with a wrong key: %v, %v, %v", c, res, err)
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""} {
		r, err := http.NewRequestWithContext(w.Ctx, http.MethodPost, "http://"+w.Address+"/console/api/sandboxes/"+id+"/destroy", strings.NewReader("{}"))
		w.OK(err)
		r.Header.Set("Authorization", "Bearer "+keyAnn)
		r.Header["Content-Type"] = []string{kind}
		if res, text := send(w, r); res.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("a POST of %q: %d %s", kind, res.StatusCode, text)
		}
	}
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, "http://"+w.Address+"/console/", nil)
	w.OK(err)
	res, text := send(w, r)
	policy := res.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Referrer-Policy") != "no-referrer" ||
		len(res.Cookies()) > 0 || len(res.Header.Values("Access-Control-Allow-Origin")) > 0 || !bytes.Contains(text, []byte("<script")) || res.StatusCode != 200 {
		t.Errorf("the page has %v and begins %.200q", res.Header, text)
	}
	refused(w, keyAnn, "evidence", nil, 403, "denied")
	refused(w, keyAnn, "sandboxes/"+id+"/rules", m{"text": "**=write"}, 403, "denied")
	big := m{"text": strings.Repeat("x", 2<<20)}
	refused(w, keyAll, "sandboxes/"+id+"/rules/check", big, 400, "invalid")
}

// Names of a sandbox get out as JSON strings, never as HTML or as something to obey.
func TestNamesAreText(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	names := []string{"<script>alert(1)", "\x1b]0;title\x07", "a\nb", "\xff\xfe", `"},{"x":"`, "\u2028", "..."}
	for _, name := range names {
		quoted := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
		run(w, id, "printf '%s' "+quoted+" > "+quoted+"; cat secret-"+quoted+" 2>/dev/null; mkdir -p d"+quoted+"; true")
	}
	run(w, id, "cd /tmp; printf '#!/bin/sh\\nsleep 600\\n' > '<b>x'; chmod +x '<b>x'")
	for _, path := range []string{"", "/files", "/changes", "/denied", "/jobs", "/rules?path=%3Cb%3E", "/diff?path=%3Cscript%3Ealert(1)"} {
		res, text := request(w, keyAnn, "sandboxes/"+id+path, nil)
		if kind := res.Header.Get("Content-Type"); kind != "application/json" || !json.Valid(text) {
			t.Errorf("%s: %s %.300q", path, kind, text)
		}
		if bytes.ContainsAny(text, "<>\x1b\x00") || bytes.Contains(text, []byte("\u2028")) {
			t.Errorf("%s has raw characters: %.500q", path, text)
		}
	}
	all := get[struct{ Changes []runtime.Change }](w, keyAnn, "sandboxes/"+id+"/changes").Changes
	found := map[string]bool{}
	for _, c := range all {
		found[c.Path] = true
	}
	for _, name := range names {
		if !found[name] {
			t.Errorf("the changes lack %q", name)
		}
	}
	d := get[struct {
		Change runtime.Change
		Hunks  []struct{ Lines []struct{ Op, Text string } }
	}](w, keyAnn, "sandboxes/"+id+"/diff?path64=%2F%2F4%3D") // \xff\xfe
	if d.Change.Path != "\xff\xfe" {
		t.Errorf("the diff is of %q", d.Change.Path)
	}
	res, text := request(w, keyAnn, "sandboxes/"+id+"/download?path=%3Cscript%3Ealert(1)", nil)
	if disposition := res.Header.Get("Content-Disposition"); res.StatusCode != 200 || (!strings.HasPrefix(disposition, "attachment") || res.Header.Get("Content-Type") != "application/octet-stream") {
		t.Errorf("a download has %v: %.100q", res.Header, text)
	}
}

// A page that was open while the service was killed finds all again.
func TestEventsAfterARestart(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	before := events(w, keyAnn)
	before.until("hello", id)
	before.until("samples", id)
	w.Restart()
	for name, _ := before.next(); name != ""; name, _ = before.next() {
	}
	after := events(w, keyAnn)
	after.until("hello", id)
	run(w, id, "cat secret; true")
	after.until("denied", `"path":"secret"`)
	post[m](w, keyAnn, "sandboxes/"+id+"/stop", m{})
	after.until("sandbox", `"state":"stopped"`)
	if got := post[struct{ Sandbox struct{ State string } }](w, keyAnn, "sandboxes/"+id+"/start", m{}); got.Sandbox.State != "running" {
		t.Errorf("after start it is %+v", got)
	}
	after.until("sandbox", `"state":"running"`)
	refused(w, keyAnn, "sandboxes/"+id+"/start", m{}, 409, "conflict")
	h := get[struct{ Samples []struct{ Memory *int64 } }](w, keyAnn, "sandboxes/"+id+"/history")
	after.until("samples", id)
	if h = get[struct{ Samples []struct{ Memory *int64 } }](w, keyAnn, "sandboxes/"+id+"/history"); len(h.Samples) == 0 || h.Samples[0].Memory == nil {
		t.Errorf("the history is %+v", h)
	}
}

// Pages are bounded, and those of one key leave room for others.
func TestPagesAreBounded(t *testing.T) {
	w := newWorld(t)
	for range 16 {
		events(w, keyAnn).until("hello", "")
	}
	refused(w, keyAnn, "events", nil, 503, "unavailable")
	events(w, keyBob).until("hello", "")
}

// What a page does with changes, hunk by hunk.
func TestChanges(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("x\n", 20)
	put(w, "f", "a\n"+text+"b\n")
	put(w, "g", "1\n")
	id := box(w)
	run(w, id, "sed -i 's/a/A/; s/b/B/' f; echo 2 > g")
	type diff struct {
		Digest   string
		CanHunks bool
		Hunks    []struct{ OldStart int }
	}
	at := "sandboxes/" + id
	d := get[diff](w, keyAnn, at+"/diff?path=f")
	if !d.CanHunks || len(d.Hunks) != 2 {
		t.Fatalf("the diff is %+v", d)
	}
	type done struct{ Applied, Left []runtime.Change }
	one := m{"hunks": []m{{"path": "f", "digest": d.Digest, "hunks": []int{0}}}}
	if got := post[done](w, keyAnn, at+"/changes/apply", one); len(got.Applied) != 1 || got.Applied[0].Path != "f" {
		t.Errorf("applied %+v", got)
	}
	holds(w, "f", "A\n"+text+"b\n")
	holds(w, "g", "1\n")
	refused(w, keyAnn, at+"/changes/apply", one, 409, "conflict")
	refused(w, keyAnn, at+"/changes/discard", one, 409, "conflict")
	d = get[diff](w, keyAnn, at+"/diff?path=f")
	if len(d.Hunks) != 1 {
		t.Fatalf("the rest is %+v", d)
	}
	post[m](w, keyAnn, at+"/changes/discard", m{"hunks": []m{{"path": "f", "digest": d.Digest, "hunks": []int{0}}}})
	if got := run(w, id, "cat f"); got != "A\n"+text+"b\n" {
		t.Errorf("inside is %q", got)
	}
	put(w, "g", "host\n")
	var f struct{ Result done }
	w.OK(json.Unmarshal([]byte(refused(w, keyAnn, at+"/changes/apply", m{"paths": []string{"g"}}, 409, "conflict")), &f))
	if len(f.Result.Left) != 1 || f.Result.Left[0].Conflict == "" {
		t.Errorf("the conflict is %+v", f)
	}
	holds(w, "g", "host\n")
	post[m](w, keyAnn, at+"/snapshots", m{"name": "s"})
	made := post[struct{ Sandboxes []string }](w, keyAnn, at+"/fork", m{"count": 2})
	if len(made.Sandboxes) != 2 {
		t.Errorf("forks are %v", made)
	}
	post[done](w, keyAnn, at+"/changes/apply", m{"paths": []string{"g"}, "force": true})
	holds(w, "g", "2\n")
}

func put(w *servetest.World, name, content string) {
	w.Helper()
	w.OK(os.WriteFile(codebase(w, name), []byte(content), 0o666))
	w.OK(os.Chmod(codebase(w, name), 0o666))
}

func holds(w *servetest.World, name, want string) {
	w.Helper()
	if got, err := os.ReadFile(codebase(w, name)); err != nil || string(got) != want {
		w.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

// A question comes to the page of a key that may use the sandbox, and the answer of a key that may
// give one lets the program go on.
func TestQuestions(t *testing.T) {
	w := servetest.New(t, keys, func(o *service.Options) {
		o.Configure = func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{Network: runtime.NetworkFiltered, Ask: []string{runtime.AskNetwork}}, nil
		}
	})
	id := box(w)
	own := events(w, keyAnn)
	own.until("hello", id)
	in, err := w.Service.Inside(w.Ctx, service.Caller{All: true}, id)
	w.OK(err)
	asked := make(chan string, 1)
	go func() { // ends with the stream
		for name, data := own.next(); name != ""; name, data = own.next() {
			if name == "questions" {
				asked <- data
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { // ends with the program, which waits for the answer
		_, err := in.Exec(w.Ctx, &runtime.Command{Command: []string{"bash", "-c", "exec 3<>/dev/tcp/asked.example/443; cat <&3"}})
		ended <- err
	}()
	question := ""
	select {
	case question = <-asked:
	case <-w.Ctx.Done():
		t.Fatal("no question has come")
	}
	list := get[struct {
		Questions []struct{ Sandbox, ID, Host, Kind string }
	}](w, keyAll, "questions").Questions
	if len(list) != 1 || list[0].Sandbox != id || list[0].Host != "asked.example:443" || list[0].Kind != "network" || !strings.Contains(question, id) {
		t.Fatalf("the questions are %+v, %s", list, question)
	}
	if left := get[struct{ Questions []m }](w, keyBob, "questions").Questions; len(left) != 0 {
		t.Errorf("bob's questions are %v", left)
	}
	at := "sandboxes/" + id + "/questions/" + list[0].ID + "/answer"
	refused(w, keyBob, at, m{"allow": true}, 404, "notFound")
	refused(w, keyAnn, at, m{"allow": true}, 403, "denied")
	refused(w, keyAll, at, m{"allow": true, "scope": "always"}, 501, "unsupported")
	select {
	case err := <-ended:
		t.Fatalf("the program has ended without an answer: %v", err)
	default:
	}
	post[m](w, keyAll, at, m{"allow": false})
	select {
	case err := <-ended:
		w.OK(err)
	case <-w.Ctx.Done():
		t.Fatal("the program does not go on")
	}
	if got := <-asked; strings.Contains(got, list[0].ID+`"`) && strings.Contains(got, "asked.example") {
		t.Errorf("after the answer the questions are %s", got)
	}
	refused(w, keyAll, at, m{"allow": true}, 404, "notFound")
}
