package envd_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/service"
	"wolffia/service/e2b/envd"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

const token = "the-access-token"

// A world is a service with a sandbox, and a server of envd for it.
type world struct {
	*servetest.World
	handler *envd.Handler
	box     envd.Box
	url     string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{World: servetest.New(t, "")}
	w.handler = envd.New(w.Service, nil)
	b, _, err := w.Service.Create(w.Ctx, &service.Params{UserName: "user"})
	w.OK(err)
	w.box = envd.Box{
		Caller: service.Caller{All: true}, ID: b.ID, SandboxID: "i" + b.ID, TemplateID: "base", Token: token,
		Env: map[string]string{"FROM_BOX": "1"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.handler.ServeSandbox(rw, r, &w.box) }))
	t.Cleanup(s.Close)
	t.Cleanup(w.Client.CloseIdleConnections)
	w.url = s.URL
	return w
}

// send sends a request with the token.
func (w *world) send(method, path string, body io.Reader, headers ...string) *http.Response {
	w.Helper()
	q, err := http.NewRequestWithContext(w.Ctx, method, w.url+path, body)
	w.OK(err)
	q.Header.Set("X-Access-Token", token)
	for n := 0; n < len(headers); n += 2 {
		if q.Header.Set(headers[n], headers[n+1]); headers[n+1] == "" {
			q.Header.Del(headers[n])
		}
	}
	r, err := w.Client.Do(q)
	w.OK(err)
	return r
}

// do returns status and body of the reply to a request.
func (w *world) do(method, path, body string, headers ...string) (int, string) {
	w.Helper()
	r := w.send(method, path, strings.NewReader(body), headers...)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	w.OK(err)
	return r.StatusCode, string(text)
}

// m is a message.
type m map[string]any

// rpc calls a method with one message each way, whose reply must have a status. An error has its
// code in the reply.
func (w *world) rpc(method string, q m, status int, headers ...string) (reply m) {
	w.Helper()
	body, err := json.Marshal(q)
	w.OK(err)
	got, text := w.do(http.MethodPost, "/"+method, string(body), append(headers, "Content-Type", "application/json")...)
	if err := json.Unmarshal([]byte(text), &reply); err != nil || got != status {
		w.Fatalf("%s %s: %d %s, want %d", method, body, got, text, status)
	}
	return reply
}

// fails is rpc of what is an error.
func (w *world) fails(method string, q m, status int, code string, headers ...string) {
	w.Helper()
	if r := w.rpc(method, q, status, headers...); r["code"] != code || r["message"] == "" {
		w.Errorf("%s %v: %v, want the code %s", method, q, r, code)
	}
}

// A stream is the reply to a method that streams.
type stream struct {
	w    *world
	body io.ReadCloser
}

// stream calls a method that streams.
func (w *world) stream(method string, q m, headers ...string) *stream {
	w.Helper()
	r := w.send(http.MethodPost, "/"+method, bytes.NewReader(w.frame(q)), append(headers, "Content-Type", "application/connect+json")...)
	if r.StatusCode != http.StatusOK {
		w.Fatalf("%s: %s", method, r.Status)
	}
	w.Cleanup(func() { _ = r.Body.Close() })
	return &stream{w, r.Body}
}

// frame returns a message of a stream.
func (w *world) frame(q m) []byte {
	w.Helper()
	text, err := json.Marshal(q)
	w.OK(err)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
}

// A message of a process, or a watcher, or of the end of a stream.
type message struct {
	Event *struct {
		Start *struct{ PID int }
		Data  *struct{ Stdout, Stderr, PTY string }
		End   *struct {
			ExitCode      int
			Exited        bool
			Status, Error string
		}
		Keepalive *struct{}
	}
	Start, Keepalive *struct{}
	Filesystem       *struct {
		Name, Type string
		Entry      m
	}
	Error *struct{ Code, Message string }
}

// next reads a message; last says that it is the end of the stream. The error is of the connection.
func (s *stream) next() (f message, last bool, err error) {
	var head [5]byte
	if _, err := io.ReadFull(s.body, head[:]); err != nil {
		return f, false, err
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(s.body, text); err != nil {
		return f, false, err
	}
	return f, head[0]&2 != 0, json.Unmarshal(text, &f)
}

// pid reads the first message of a process.
func (s *stream) pid() int {
	s.w.Helper()
	f, _, err := s.next()
	if err != nil || f.Event == nil || f.Event.Start == nil || f.Event.Start.PID < 2 {
		s.w.Fatalf("the stream does not begin with start: %+v, %v", f, err)
	}
	return f.Event.Start.PID
}

// text decodes bytes.
func (s *stream) text(b64 string) string {
	s.w.Helper()
	b, err := base64.StdEncoding.DecodeString(b64)
	s.w.OK(err)
	return string(b)
}

// A result is what a stream has said of a process.
type result struct {
	out, errs, pty, status, failed string
	code                           int
	ended                          bool   // it has said how it ended
	closing                        string // the code of the closing frame; "ok": none
	broken                         bool
}

// rest reads a stream to its end.
func (s *stream) rest() (r result) {
	s.w.Helper()
	var out, errs, pty strings.Builder
	defer func() { r.out, r.errs, r.pty = out.String(), errs.String(), pty.String() }()
	for {
		f, last, err := s.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			r.broken = true
			return r
		case err != nil:
			s.w.Fatal(err)
		case last && f.Error != nil:
			r.closing = f.Error.Code
			return r
		case last:
			r.closing = "ok"
			return r
		case f.Event == nil || r.ended:
			s.w.Fatalf("%+v after %+v", f, r)
		case f.Event.Data != nil:
			d := f.Event.Data
			out.WriteString(s.text(d.Stdout))
			errs.WriteString(s.text(d.Stderr))
			pty.WriteString(s.text(d.PTY))
		case f.Event.End != nil:
			e := f.Event.End
			r.ended, r.code, r.status, r.failed = true, e.ExitCode, e.Status, e.Error
		}
	}
}

// until reads output until it has a text.
func (s *stream) until(want string) (got string) {
	s.w.Helper()
	for !strings.Contains(got, want) {
		f, last, err := s.next()
		if err != nil || last {
			s.w.Fatalf("%q, then %+v, %v", got, f, err)
		}
		if d := f.Event.Data; d != nil {
			got += s.text(d.Stdout + d.PTY)
		}
	}
	return got
}

// bash is a request to start a line of a shell.
func bash(line string) m {
	return m{"process": m{"cmd": "/bin/bash", "args": []string{"-l", "-c", line}}, "stdin": false}
}

// of names a process.
func of(pid int) m { return m{"process": m{"pid": pid}} }

// run runs a line of a shell.
func (w *world) run(line string, headers ...string) result {
	w.Helper()
	s := w.stream(start, bash(line), headers...)
	s.pid()
	return s.rest()
}
