package opensandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
)

// A resumed is a streamed reply that is read event by event.
type resumed struct {
	*world
	in    *bufio.Scanner
	leave func() // closes the connection
	eid   int64  // of the last event
	out   strings.Builder
}

// stream begins a streamed reply; body is empty for GET. With another status than 200, it is nil.
func (w *world) stream(path, body string) (*resumed, int) { return w.streamAs("", path, body) }

// streamAs is stream with a key.
func (w *world) streamAs(key, path, body string) (*resumed, int) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.Address+path, strings.NewReader(body))
	w.OK(err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("OPEN-SANDBOX-API-KEY", key)
	}
	res, err := w.Client.Do(req)
	w.OK(err)
	leave := func() { cancel(); _ = res.Body.Close() }
	w.Cleanup(leave)
	if res.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, res.Body)
		leave()
		return nil, res.StatusCode
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	return &resumed{world: w, in: in, leave: leave}, http.StatusOK
}

// again resumes a command, once the service has noticed that its client has gone.
func (w *world) again(path string) *resumed {
	w.Helper()
	for {
		if r, status := w.stream(path, ""); status != http.StatusConflict {
			if r == nil {
				w.Fatalf("%s: got %d; want r != nil", path, status)
			}
			return r
		}
	}
}

// until reads events up to one of a type, which it returns.
func (r *resumed) until(kind string) (e struct {
	event
	EID int64
},
) {
	r.Helper()
	for r.in.Scan() {
		if len(r.in.Bytes()) == 0 {
			continue
		}
		e.event = event{}
		r.OK(json.Unmarshal(r.in.Bytes(), &e))
		if r.eid != 0 && e.EID != r.eid+1 {
			r.Fatalf("event %d follows %d", e.EID, r.eid)
		}
		r.eid = e.EID
		if e.Type == "stdout" {
			r.out.WriteString(e.Text)
		}
		if e.Type == kind {
			return e
		}
	}
	r.Fatalf("no event %s: %v", kind, r.in.Err())
	return e
}

// A command that wants it goes on when its client has gone, which can have the rest.
func TestResume(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	w.run(execd+"/command", m{"command": "mkfifo /tmp/go"})
	a, _ := w.stream(execd+"/command", `{"resumeWithin":60000,"command":"echo one; read x </tmp/go; echo two; exit 4"}`)
	path := execd + "/command/" + a.until("init").Text + "/resume"
	a.until("stdout")
	w.is("GET", path, "", 409, "has a client")
	a.leave()
	b := w.again(path + fmt.Sprintf("?after_eid=%d", a.eid))
	b.eid = a.eid
	w.run(execd+"/command", m{"command": "echo x >/tmp/go"})
	if e := b.until("error"); e.Error.EValue != "4" || b.out.String() != "two" {
		t.Errorf("the rest: %q, %+v", b.out.String(), e)
	}
	// What was sent may not have arrived.
	c := w.again(path)
	if e := c.until("error"); e.EID != b.eid || c.out.String() != "onetwo" {
		t.Errorf("all again: %q, %+v", c.out.String(), e)
	}
	c.leave()
	for status := 409; status == 409; { // it has not noticed yet
		status, _ = w.call("GET", path+"?after_eid=1000", "")
		if status != 409 && status != 400 {
			t.Errorf("an event that was never sent: %d", status)
		}
	}
	w.is("GET", path+"?after_eid=-1", "", 400, "INVALID_PARAMETER")
	w.is("GET", execd+"/command/none/resume", "", 404, "command not found")
	w.is("POST", execd+"/command", `{"command":"true","resumeWithin":-1}`, 400, "resumeWithin")
	events := w.run(execd+"/command", m{"command": "true"})
	w.is("GET", execd+"/command/"+events[0].Text+"/resume", "", 409, "begin one with resumeWithin")

	// Output waits for a client, and all of it comes.
	const lines = 20_000
	a, _ = w.stream(execd+"/command", fmt.Sprintf(`{"resumeWithin":60000,"command":"seq -w %d; echo end >&2"}`, lines))
	path = execd + "/command/" + a.until("init").Text + "/resume"
	for range 1000 {
		a.until("stdout")
	}
	a.leave()
	b = w.again(path + fmt.Sprintf("?after_eid=%d", a.eid))
	b.eid = a.eid
	b.until("execution_complete")
	if n := a.out.Len() + b.out.Len(); n != 5*lines {
		t.Errorf("%d bytes of %d", n, 5*lines)
	}
	b.leave()

	// It is killed if no client comes back, also when its output waits.
	for _, command := range []string{"sleep 1000", "yes"} {
		a, _ = w.stream(execd+"/command", fmt.Sprintf(`{"resumeWithin":50,"command":"exec 3>/tmp/lock; flock 3; echo begun; %s"}`, command))
		path = execd + "/command/" + a.until("init").Text + "/resume"
		a.until("stdout")
		a.leave()
		if got := w.run(execd+"/command", m{"command": "flock /tmp/lock echo gone", "timeout": 60_000}); output(got, "stdout") != "gone\n" {
			t.Errorf(`%s: got %+v; want output(got, "stdout") == %q`, command, got, "gone\n")
		}
		w.is("GET", path, "", 409, "cannot be resumed")
	}
	// In a session, too.
	var s struct {
		ID string `json:"session_id"`
	}
	w.OK(json.Unmarshal([]byte(w.is("POST", execd+"/session", "", 200, "session_id")), &s))
	a, _ = w.stream(execd+"/session/"+s.ID+"/run", `{"resumeWithin":60000,"command":"echo one; read x </tmp/go; V=set"}`)
	path = execd + "/command/" + a.until("init").Text + "/resume"
	a.until("stdout")
	a.leave()
	b = w.again(path)
	w.run(execd+"/command", m{"command": "echo x >/tmp/go"})
	b.until("execution_complete")
	if got := output(w.run(execd+"/session/"+s.ID+"/run", m{"command": "echo $V"}), "stdout"); got != "set\n" {
		t.Errorf("the session after it: %q", got)
	}
}

// Commands that can be resumed and have ended keep no others from it, and those of one owner keep
// no other owner's.
func TestManyResumable(t *testing.T) {
	w := &world{servetest.New(t, keyZoe+" acme/web/zoe\n"+keyYan+" acme/web/yan\n")}
	create := func(key string) (id, command string) {
		var s sandbox
		w.OK(json.Unmarshal([]byte(w.is("POST", "/v1/sandboxes", `{"image":{"uri":"host"}}`, 202, "", "OPEN-SANDBOX-API-KEY", key)), &s))
		return s.ID, "/sandboxes/" + s.ID + "/port/44772/command"
	}
	const most = 64
	id, zoes := create(keyZoe)
	last := ""
	for n := range most + 3 {
		text := w.is("POST", zoes, fmt.Sprintf(`{"command":"echo %d","resumeWithin":600000}`, n), 200, "execution_complete", "OPEN-SANDBOX-API-KEY", keyZoe)
		last = w.events(text)[0].Text
	}
	w.is("GET", zoes+"/"+last+"/resume", "", 200, fmt.Sprint(most+2), "OPEN-SANDBOX-API-KEY", keyZoe)
	for range most {
		a, _ := w.streamAs(keyZoe, zoes, `{"command":"echo begun; yes","resumeWithin":600000}`)
		a.until("stdout")
		a.leave()
	}
	w.is("POST", zoes, `{"command":"true","resumeWithin":600000}`, 503, "the limit", "OPEN-SANDBOX-API-KEY", keyZoe)
	_, yans := create(keyYan)
	w.is("POST", yans, `{"command":"true","resumeWithin":600000}`, 200, "execution_complete", "OPEN-SANDBOX-API-KEY", keyYan)
	w.is("DELETE", "/v1/sandboxes/"+id, "", 204, "", "OPEN-SANDBOX-API-KEY", keyZoe)
	_, zoes = create(keyZoe)
	w.is("POST", zoes, `{"command":"true","resumeWithin":600000}`, 200, "execution_complete", "OPEN-SANDBOX-API-KEY", keyZoe)
}
