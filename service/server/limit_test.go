package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
	"wolffia/service/server"
)

// dial connects to the socket as it is.
func (w *world) dial() net.Conn {
	w.Helper()
	c, err := net.Dial("unix", w.socket)
	w.OK(err)
	w.Cleanup(func() { _ = c.Close() })
	w.OK(c.SetDeadline(time.Now().Add(suite.Limit)))
	return c
}

func (w *world) send(c net.Conn, text string) {
	w.Helper()
	_, err := io.WriteString(c, text)
	w.OK(err)
}

const head = "POST /api/v1/%s HTTP/1.1\r\nHost: wolffia\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

// A client that sends too slowly, or too much, or does not read the answer, is disconnected,
// and no other client notices.
func TestSlowClients(t *testing.T) {
	const limit = 3 * time.Second // for those that do all in time, too
	w := newWorld(t, &server.Options{HeaderLimit: limit, BodyLimit: limit, WriteLimit: limit, IdleLimit: limit})
	id := w.box(zoe)
	var slow []net.Conn
	for range 50 {
		nothing, part, body := w.dial(), w.dial(), w.dial()
		w.send(part, "POST /api/v1/findSandbox HT")
		w.send(body, fmt.Sprintf(head, "findSandbox", 100)+"{")
		slow = append(slow, nothing, part, body)
	}
	unread := w.dial()
	in := by(zoe, m{"sandboxId": id, "command": "head -c 9000000 /dev/zero"})
	b := fmt.Sprintf(`{"organizationId":%q,"projectId":%q,"userId":%q,"sandboxId":%q,"command":%q}`, in["organizationId"], in["projectId"], in["userId"], id, in["command"])
	w.send(unread, fmt.Sprintf(head, "executeBash", len(b))+b)
	if got := w.bash(zoe, id, "echo served"); got != "served\n" {
		t.Errorf("meanwhile: %q", got)
	}
	for i, c := range slow {
		answer, err := io.ReadAll(c) // ends when the server closes
		if err != nil {
			t.Errorf("%d: it was not cut off: %v", i, err)
		}
		if i%3 == 2 && !strings.Contains(string(answer), `"code":"tooSlow"`) {
			t.Errorf("a body that does not come: %s", answer)
		}
	}
	w.Until("the answer that is not taken is given up", func() bool { return strings.Count(w.log.String(), `"call":"executeBash"`) == 2 })
	if n, err := io.Copy(io.Discard, unread); n > 9<<20 {
		t.Errorf("%d bytes were kept for it (%v)", n, err)
	}
}

// What happens between request and answer has no limit.
func TestLongCommandIsNotCut(t *testing.T) {
	const limit = time.Second
	w := newWorld(t, &server.Options{HeaderLimit: limit, BodyLimit: limit, WriteLimit: limit, IdleLimit: limit})
	id := w.box(zoe)
	if got := w.bash(zoe, id, "sleep 3; echo done"); got != "done\n" {
		t.Errorf("got %q", got)
	}
}

func TestRequestsOfTheWrongForm(t *testing.T) {
	w := newWorld(t, nil)
	large := `{"organizationId":"` + strings.Repeat("x", 100<<10) + `"}`
	w.is("too large", w.post(w.Ctx, "findSandbox", large, nil), 413, "tooLarge")
	w.is("no object", w.post(w.Ctx, "findSandbox", "[]", nil), 400, "invalid")
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json;;", "application/jsonx"} {
		w.is(media, w.post(w.Ctx, "findSandbox", "{}", http.Header{"Content-Type": {media}}), 415, "invalidType")
	}
	w.is("with a charset", w.post(w.Ctx, "findSandbox", "{}", http.Header{"Content-Type": {"application/json; charset=utf-8"}}), 400, "invalid")
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, "BREW"} {
		req, err := http.NewRequestWithContext(w.Ctx, method, "http://wolffia/api/v1/findSandbox", nil)
		w.OK(err)
		r := do(w.client, req)
		if w.is(method, r, 405, "invalidMethod"); r.header.Get("Allow") != "POST" {
			t.Errorf(`%s: got r.header %v; want r.header.Get("Allow") == "POST"`, method, r.header)
		}
	}
	for _, path := range []string{"nosuch", "../nosuch"} {
		req, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, "http://wolffia/api/v1/"+path, nil)
		w.OK(err)
		w.is(path, do(w.client, req), 404, "noSuchCall")
	}
	for _, path := range []string{"", "findsandbox", "findSandbox/", "../v1/x", "%66indSandboxx"} {
		w.is(path, w.post(w.Ctx, path, "{}", nil), 404, "noSuchCall")
	}
	c := w.dial()
	w.send(c, "POST /api/v1/findSandbox HTTP/1.1\r\nHost: wolffia\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, "431") {
		t.Errorf("a long head: %q, %v", line, err)
	}
}

// Stop lets what runs end, cuts off what does not, and leaves the sandboxes.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		name          string
		grace         time.Duration
		command       string
		status        int
		code, printed string
		operation     string
	}{
		{"ends by itself", suite.Limit, "until [ -e /workspace/stopping ]; do sleep 0.05; done; echo done", 200, "", "done\n", ""},
		{"is cut off", 50 * time.Millisecond, "sleep 1000", 503, "stopping", "", ""},
		{"goes on", 50 * time.Millisecond, "until [ -e /workspace/stopping ]; do sleep 0.05; done; echo done", 503, "stopping", "", "op"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			id := w.box(zoe)
			shell := w.bash(zoe, id, "A=kept; echo $$")
			command := ": > /workspace/begun; " + c.command
			answer := make(chan *reply, 1)
			go func() { // ends with the command
				answer <- w.call(w.Ctx, "executeBash", by(zoe, m{"sandboxId": id, "command": command, "operationId": c.operation}))
			}()
			w.Until("it has begun", func() bool { return exists(w.codebase + "/begun") })
			stopped := make(chan error, 1)
			go func() { stopped <- w.server.Stop(w.Ctx, c.grace) }() // ends with the request
			w.Until("no client can connect", func() bool { return !exists(w.socket) })
			if c.operation == "" {
				w.OK(os.WriteFile(w.codebase+"/stopping", nil, 0o666))
			}
			r := <-answer
			if w.is(c.name, r, c.status, c.code); r.Stdout != c.printed {
				t.Errorf("got r.body %s; want r.Stdout == %v", r.body, c.printed)
			}
			w.OK(<-stopped)
			w.OK(<-w.ended)
			w.OK(w.service.Close())
			w.OK(os.WriteFile(w.codebase+"/stopping", nil, 0o666))
			rt := w.open()
			if c.operation != "" {
				res, err := rt.SessionExec(w.Ctx, runtime.SessionIn(id, "main"), &runtime.SessionExecRequest{Command: []string{command}, Operation: c.operation})
				w.OK(err)
				if string(res.Stdout) != "done\n" {
					t.Errorf("the operation says %q", res.Stdout)
				}
			}
			res, err := rt.SessionExec(w.Ctx, runtime.SessionIn(id, "main"), &runtime.SessionExecRequest{Command: []string{"echo $$; echo $A; while pgrep -x sleep >/dev/null; do :; done; echo none"}})
			w.OK(err)
			if string(res.Stdout) != shell+"kept\nnone\n" {
				t.Errorf("afterwards: %q", res.Stdout)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
