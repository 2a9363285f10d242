package opensandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// A world is a service, and what the tests send to it.
type world struct{ *servetest.World }

func newWorld(t testing.TB) *world { return &world{servetest.New(t, "")} }

// call sends JSON, or nothing if body is empty, and returns status and body of the reply. An
// error must have a code and a message and nothing else.
func (w *world) call(method, path, body string, headers ...string) (int, string) {
	w.Helper()
	if body != "" {
		headers = append(headers, "Content-Type", "application/json")
	}
	status, header, text := w.Do(method, path, strings.NewReader(body), headers...)
	if header.Get("X-Request-Id") == "" {
		w.Errorf("%s %s: no request id", method, path)
	}
	var failed map[string]string
	if status >= 400 && (json.Unmarshal([]byte(text), &failed) != nil || len(failed) != 2 || failed["code"] == "" || failed["message"] == "") {
		w.Errorf("%s %s: %d %s: not an error", method, path, status, text)
	}
	return status, text
}

// is sends as call does, and checks the status and that the reply has a text.
func (w *world) is(method, path, body string, status int, part string, headers ...string) string {
	w.Helper()
	got, text := w.call(method, path, body, headers...)
	if got != status || !strings.Contains(text, part) {
		w.Fatalf("%s %s %s: %d %s, want %d %s", method, path, body, got, text, status, part)
	}
	return text
}

// a sandbox on the wire.
type sandbox struct {
	ID     string
	Status struct{ State, Reason, Message string }
	State  string
}

// create creates a sandbox, and returns its id and the path of its execd.
func (w *world) create(body string) (id, execd string) {
	w.Helper()
	if body == "" {
		body = `{"image":{"uri":"host"}}`
	}
	var s sandbox
	w.OK(json.Unmarshal([]byte(w.is(http.MethodPost, "/v1/sandboxes", body, http.StatusAccepted, `"state":"Running"`)), &s))
	return s.ID, "/sandboxes/" + s.ID + "/port/44772"
}

// An event is one of a streamed reply.
type event struct {
	Type, Text, Data string
	Bytes            []byte
	EOL              *bool
	ExitCode         *int
	Error            *struct {
		EName, EValue string
		Traceback     []string
	}
}

// run runs a command, or a text in a session, and returns its events.
func (w *world) run(path string, body any) []event {
	w.Helper()
	text, err := json.Marshal(body)
	w.OK(err)
	status, header, reply := w.Do(http.MethodPost, path, strings.NewReader(string(text)), "Content-Type", "application/json")
	if status != http.StatusOK || header.Get("Content-Type") != "text/event-stream" {
		w.Fatalf(`json.Marshal: got path %s, text %s, status %d, reply %s; want status == http.StatusOK and header.Get("Content-Type") == "text/event-stream"`,
			path, text, status, reply)
	}
	return w.events(reply)
}

// events parses a streamed reply: each event is JSON and an empty line.
func (w *world) events(reply string) (events []event) {
	w.Helper()
	frames := strings.Split(reply, "\n\n")
	if frames[len(frames)-1] != "" {
		w.Fatalf("the last event is cut off: %q", reply)
	}
	for _, f := range frames[:len(frames)-1] {
		var e event
		if err := json.Unmarshal([]byte(f), &e); err != nil {
			w.Fatalf("event %q: %v", f, err)
		}
		events = append(events, e)
	}
	if len(events) < 3 || events[0].Type != "init" || events[0].Text == "" || events[1].Type != "ping" || events[1].Text != "pong" {
		w.Fatalf("the events begin with %+v", events)
	}
	return events
}

// output returns the bytes of one stream.
func output(events []event, kind string) string {
	var b strings.Builder
	for _, e := range events {
		if e.Type != kind {
			continue
		}
		text := e.Text
		if e.Bytes != nil {
			text = string(e.Bytes)
		}
		b.WriteString(text)
		if (e.EOL == nil || *e.EOL) && text != "\n" {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// m is a request.
type m map[string]any

// native makes a call of the service, and returns status and body of the reply.
func (w *world) native(name, body string, headers ...string) (int, string) {
	w.Helper()
	status, _, text := w.Do(http.MethodPost, "/api/v1/"+name, strings.NewReader(body), append(headers, "Content-Type", "application/json")...)
	return status, text
}
