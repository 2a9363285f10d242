package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// keys are the content of a key file: one for all owners, and one for each of two.
const (
	keyAll = "all-of-them-1234567890"
	keyAnn = "ann-of-acme-1234567890"
	keyBob = "bob-of-acme-1234567890"
	keys   = keyAll + "\n" + keyAnn + " acme/web/ann\n" + keyBob + " acme/web/bob\n"
)

var (
	ann = registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "ann"}
	bob = registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "bob"}
)

// newWorld serves sandboxes with a copied codebase, in which the file secret is hidden, whose changes
// may be applied.
func newWorld(t *testing.T) *servetest.World {
	t.Helper()
	var w *servetest.World
	w = servetest.New(t, keys, func(o *service.Options) {
		o.AllowApply = true
		o.Configure = func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{CodebasePath: w.Codebase, CopyOnWrite: true, Permissions: []perm.Rule{
				{Pattern: "**", Level: perm.Write, Source: "preset full-access"}, {Pattern: "secret", Level: perm.None, Priority: 10, Source: "--rule"},
			}}, nil
		}
	})
	return w
}

// box makes a sandbox of ann's.
func box(w *servetest.World) string {
	w.Helper()
	b, _, err := w.Service.Create(w.Ctx, &service.Params{Owner: ann})
	w.OK(err)
	return b.ID
}

// run evaluates a command in a sandbox.
func run(w *servetest.World, id, command string) string {
	w.Helper()
	in, err := w.Service.Inside(w.Ctx, service.Caller{All: true}, id)
	w.OK(err)
	r, err := in.Exec(w.Ctx, &runtime.Command{Command: []string{"sh", "-c", command}})
	w.OK(err)
	if r.ExitCode != 0 {
		w.Fatalf("%s: %d, %s%s", command, r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

// codebase returns the path of a file on the host.
func codebase(w *servetest.World, name string) string { return filepath.Join(w.Codebase, name) }

// request sends a request of a key. body is JSON of a POST; nil: it is a GET.
func request(w *servetest.World, key, path string, body any) (*http.Response, []byte) {
	w.Helper()
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		text, err := json.Marshal(body)
		w.OK(err)
		method, content = http.MethodPost, bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(w.Ctx, method, "http://"+w.Address+"/console/api/"+path, content)
	w.OK(err)
	r.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return send(w, r)
}

func send(w *servetest.World, r *http.Request) (*http.Response, []byte) {
	w.Helper()
	res, err := w.Client.Do(r)
	w.OK(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	w.OK(err)
	return res, text
}

type m = map[string]any

// get and post send a request that must succeed, and decode the reply.
func get[T any](w *servetest.World, key, path string) (reply T) {
	w.Helper()
	return decoded[T](w, key, path, nil)
}

func post[T any](w *servetest.World, key, path string, body m) (reply T) {
	w.Helper()
	return decoded[T](w, key, path, body)
}

func decoded[T any](w *servetest.World, key, path string, body m) (reply T) {
	w.Helper()
	var of any
	if body != nil {
		of = body
	}
	res, text := request(w, key, path, of)
	if res.StatusCode != http.StatusOK {
		w.Fatalf("%s: %s: %s", path, res.Status, text)
	}
	w.OK(json.Unmarshal(text, &reply))
	return reply
}

// refused sends a request that must fail.
func refused(w *servetest.World, key, path string, body m, status int, code string) (text string) {
	w.Helper()
	var of any
	if body != nil {
		of = body
	}
	res, got := request(w, key, path, of)
	var f struct {
		Error struct{ Code, Message string }
	}
	w.OK(json.Unmarshal(got, &f))
	if res.StatusCode != status || f.Error.Code != code {
		w.Errorf("%s: got %d, %s; want %d %s", path, res.StatusCode, got, status, code)
	}
	return string(got)
}

// A stream is a stream of events.
type stream struct {
	*servetest.World
	body  io.Closer
	lines *bufio.Scanner
}

func events(w *servetest.World, key string) *stream {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, "http://"+w.Address+"/console/api/events", nil)
	w.OK(err)
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := w.Client.Do(r)
	w.OK(err)
	w.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		w.Fatalf("events: %s, %v", res.Status, res.Header)
	}
	s := &stream{w, res.Body, bufio.NewScanner(res.Body)}
	s.lines.Buffer(nil, 8<<20)
	return s
}

// next returns the next event; an empty name: the stream has ended.
func (s *stream) next() (name, data string) {
	for s.lines.Scan() {
		text := s.lines.Text()
		switch {
		case strings.HasPrefix(text, "event: "):
			name = text[len("event: "):]
		case strings.HasPrefix(text, "data: "):
			return name, text[len("data: "):]
		}
	}
	return "", ""
}

// until reads events up to one of a name whose data has a text.
func (s *stream) until(name, has string) string {
	s.Helper()
	for {
		got, data := s.next()
		switch {
		case got == "":
			s.Fatalf("the stream has ended before %q with %q: %v", name, has, s.lines.Err())
		case got == name && strings.Contains(data, has):
			return data
		}
	}
}

// A viewer is a client of a terminal.
type viewer struct {
	*servetest.World
	conn  *websocket.Conn
	seen  strings.Builder
	start uint64
	end   uint64
}

// dial connects to a terminal; origin may be empty.
func dial(w *servetest.World, key, path, origin string) (*websocket.Conn, *http.Response, error) {
	o := &websocket.DialOptions{HTTPClient: w.Client, HTTPHeader: http.Header{}}
	o.Subprotocols = []string{"wolffia.console", "wolffia.token." + base64.RawURLEncoding.EncodeToString([]byte(key))}
	if origin != "" {
		o.HTTPHeader.Set("Origin", origin)
	}
	return websocket.Dial(w.Ctx, "ws://"+w.Address+"/console/api/"+path, o)
}

func view(w *servetest.World, key, path string) *viewer {
	w.Helper()
	conn, _, err := dial(w, key, path, "http://"+w.Address)
	w.OK(err)
	w.Cleanup(func() { _ = conn.CloseNow() })
	if got := conn.Subprotocol(); got != "wolffia.console" {
		w.Errorf("the subprotocol is %q", got)
	}
	v := &viewer{World: w, conn: conn}
	var hello struct{ Start, End *uint64 }
	kind, b, err := conn.Read(w.Ctx)
	w.OK(err)
	w.OK(json.Unmarshal(b, &hello))
	if kind != websocket.MessageText || hello.Start == nil || hello.End == nil {
		w.Fatalf("the first message is %s", b)
	}
	v.start, v.end = *hello.Start, *hello.End
	return v
}

// shows reads until the output has a text.
func (v *viewer) shows(text string) {
	v.Helper()
	for !strings.Contains(v.seen.String(), text) {
		kind, b, err := v.conn.Read(v.Ctx)
		if err != nil || kind != websocket.MessageBinary {
			v.Fatalf("waiting for %q: got %s, %v; seen %q", text, b, err, v.seen.String())
		}
		v.seen.Write(b)
	}
}

// types types a text.
func (v *viewer) types(text string) {
	v.Helper()
	v.OK(v.conn.Write(v.Ctx, websocket.MessageBinary, []byte(text)))
}

// last reads text messages until the connection ends, and returns them with its status.
func (v *viewer) last() (text string, status websocket.StatusCode) {
	for {
		kind, b, err := v.conn.Read(v.Ctx)
		if err != nil {
			return text, websocket.CloseStatus(err)
		}
		if kind == websocket.MessageText {
			text += string(b)
		}
	}
}
