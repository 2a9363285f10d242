package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/wait"
	"wolffia/mcp"
	"wolffia/service"
	"wolffia/service/quota"
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

// A withKey sends a key with each request.
type withKey struct {
	next http.RoundTripper
	key  string
}

func (k *withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.next.RoundTrip(r)
}

// A client is one of the official SDK.
type client struct {
	*servetest.World
	*sdk.ClientSession
	ctx      context.Context
	progress chan string // messages
}

// withSessions is the last version of the protocol that has sessions.
const withSessions = "2025-11-25"

// dial connects to a path of the service, with a session.
func dial(w *servetest.World, path, key string) (*client, error) {
	return speak(w, path, key, withSessions)
}

// speak connects in a version of the protocol.
func speak(w *servetest.World, path, key, version string) (*client, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Ctx, wait.Limit)
	w.Cleanup(cancel)
	c := &client{World: w, ctx: ctx, progress: make(chan string, 1000)}
	var err error
	c.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { c.progress <- r.Params.Message },
	}).Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: "http://" + w.Address + path, HTTPClient: &http.Client{Transport: &withKey{w.Client.Transport, key}}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	return c, err
}

// connect dials, and closes the session at the end of the test, unless it is closed before.
func connect(w *servetest.World, path, key string) *client {
	w.Helper()
	c, err := dial(w, path, key)
	w.OK(err)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

type args = map[string]any

// tool calls a tool and returns its text and structured output.
func (c *client) tool(ctx context.Context, name string, a args) (text string, out args, failed bool, err error) {
	p := &sdk.CallToolParams{Name: name, Arguments: a}
	p.SetProgressToken(name)
	res, err := c.CallTool(ctx, p)
	if err != nil {
		return "", nil, false, err
	}
	for _, x := range res.Content {
		if t, is := x.(*sdk.TextContent); is {
			text += t.Text
		}
	}
	out, _ = res.StructuredContent.(args)
	return text, out, res.IsError, nil
}

// ok calls a tool that must succeed.
func (c *client) ok(name string, a args) (string, args) {
	c.Helper()
	text, out, failed, err := c.tool(c.ctx, name, a)
	if err != nil || failed {
		c.Fatalf("%s %v: got text %s, err %v; want err == nil and not failed", name, a, text, err)
	}
	return text, out
}

// bash runs a command and returns its standard output.
func (c *client) bash(command string) string {
	c.Helper()
	_, out := c.ok("bash", args{"command": command})
	return fmt.Sprint(out["stdout"])
}

// Sessions over HTTP have the tools and the shell that a client on standard input has.
func TestTools(t *testing.T) {
	w := servetest.New(t, "")
	c := connect(w, "/mcp", "")
	all, err := c.ListTools(c.ctx, nil)
	w.OK(err)
	var names []string
	for _, x := range all.Tools {
		names = append(names, x.Name)
	}
	const want = "bash bash_background bash_output edit_file explain_denial glob grep job_kill job_output job_wait list_dir read_file status write_file"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the tools are %s", got)
	}
	const most = 12 << 10 // each session of a model has it in its context
	if text, err := json.Marshal(all.Tools); err != nil || len(text) > most {
		t.Errorf("tools/list has %d bytes, want at most %d: %v", len(text), most, err)
	}
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "secret"), []byte("password"), 0o644))
	c.bash("cd /tmp; A=1")
	if got := c.bash("echo $A $PWD"); got != "1 /tmp\n" {
		t.Errorf("the shell has %q", got)
	}
	if text, _ := c.ok("bash", args{"command": "cat " + "/workspace/secret; true"}); !strings.Contains(text, `denied by rule "secret=none"`) {
		t.Errorf("a denial: %s", text)
	}
	c.ok("write_file", args{"path": "a.txt", "content": "one two"})
	c.ok("edit_file", args{"path": "a.txt", "old_string": "two", "new_string": "three"})
	if b, err := os.ReadFile(filepath.Join(w.Codebase, "a.txt")); err != nil || string(b) != "one three" {
		t.Errorf("the file is %q, %v", b, err)
	}
	text, out := c.ok("status", nil)
	if strings.Contains(text, w.Codebase) || out["codebase"] != nil || out["lasting"] != true {
		t.Errorf("status tells a path of the host, or not that the sandbox stays: %s", text)
	}
	if text, _ := c.ok("explain_denial", args{"path": "secret"}); !strings.Contains(text, "wolffia serve --") || !strings.Contains(text, "wolffia policy add") {
		t.Errorf("explain_denial: %s", text)
	}
	// Another session has the same sandbox and the same shell, unless it names its own.
	if got := connect(w, "/mcp", "").bash("echo $A"); got != "1\n" {
		t.Errorf("another session has %q", got)
	}
	if got := connect(w, "/mcp?session=mine", "").bash("echo $A$PWD; cat a.txt"); got != "/workspace\none three" {
		t.Errorf("another shell has %q", got)
	}
	if got := connect(w, "/mcp?owner=acme/web/ann", "").bash("echo $A"); got != "\n" {
		t.Errorf("another owner has %q", got)
	}
	first := connect(w, "/mcp?sandbox=web", "")
	first.bash("B=2")
	w.OK(first.Close())
	_, out = connect(w, "/mcp?sandbox=web", "").ok("status", nil)
	id := fmt.Sprint(out["sandbox"])
	if got := connect(w, "/mcp?sandbox="+id, "").bash("echo $B$A"); got != "2\n" {
		t.Errorf("a sandbox by name, by id: %q", got)
	}
	if n := strings.Count(w.Log.String(), `"call":"/mcp"`); n < 10 {
		t.Errorf("the log has %d requests", n)
	}
}

// Progress arrives while a command runs; cancellation, and the end of a session, interrupt it,
// and the shell stays.
func TestInterrupts(t *testing.T) {
	w := servetest.New(t, "")
	c := connect(w, "/mcp", "")
	c.bash("A=1")
	begin := filepath.Join(w.Codebase, "begun")
	w.OK(syscall.Mkfifo(begin, 0o666))
	w.OK(os.Chmod(begin, 0o666))
	running := func(d *client, stop func(context.CancelFunc)) {
		t.Helper()
		ctx, cancel := context.WithCancel(d.ctx)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, _, failed, err := d.tool(ctx, "bash", args{"command": "echo begun; while :; do sleep 0.01; done"})
			if err == nil && failed {
				err = errors.New("the tool has failed")
			}
			ended <- err
		}()
		for m := ""; m != "begun"; {
			select {
			case m = <-d.progress:
			case err := <-ended:
				t.Fatalf("ended before it was interrupted: %v", err)
			case <-d.ctx.Done():
				t.Fatal("no progress")
			}
		}
		stop(cancel)
		if err := <-ended; err == nil {
			t.Error("an interrupted call succeeds")
		}
	}
	running(c, func(cancel context.CancelFunc) { cancel() })
	if got := c.bash("echo $A"); got != "1\n" { // it would wait for the loop
		t.Errorf("after a cancellation: %q", got)
	}
	other := connect(w, "/mcp", "")
	running(other, func(context.CancelFunc) { // the client would wait for its call
		if status, _, text := w.Do(http.MethodDelete, "/mcp", nil, "Mcp-Session-Id", other.ID()); status != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", status, text)
		}
	})
	if got := c.bash("echo $A"); got != "1\n" {
		t.Errorf("after the end of a session: %q", got)
	}
}

// A key is for its owner: neither the query nor the id of a session gives more.
func TestKeys(t *testing.T) {
	w := servetest.New(t, keys)
	ann := connect(w, "/mcp", keyAnn)
	ann.bash("A=ann")
	for _, c := range []struct{ path, key, part string }{
		{"/mcp", "", "Unauthorized"},
		{"/mcp", "not-a-key-1234567890", "Unauthorized"},
		{"/mcp?owner=acme/web/ann", keyBob, "Forbidden"},
		{"/mcp?owner=acme", keyAll, "Bad Request"},
		{"/mcp?own=acme", keyAll, "Bad Request"},
		{"/mcp?session=a&session=b", keyAll, "Bad Request"},
		{"/mcp?sandbox=", keyAll, "Bad Request"},
		{"/mcp?sandbox=a;b", keyAll, "Bad Request"},
		{"/mcp?owner=%zz", keyAll, "Bad Request"},
	} {
		if _, err := dial(w, c.path, c.key); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s with key %.3s: %v, want %s", c.path, c.key, err, c.part)
		}
	}
	_, out := ann.ok("status", nil)
	_, mine := connect(w, "/mcp?sandbox=web", keyAnn).ok("status", nil)
	for _, id := range []string{fmt.Sprint(out["sandbox"]), fmt.Sprint(mine["sandbox"])} {
		_, theirs := connect(w, "/mcp?sandbox="+id, keyBob).ok("status", nil) // it is a name, to bob
		if theirs["sandbox"] == id {
			t.Errorf("bob has the sandbox %s of ann", id)
		}
	}
	if got := connect(w, "/mcp?owner=acme/web/ann", keyAll).bash("echo $A"); got != "ann\n" {
		t.Errorf("the key for all owners sees %q", got)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for key, want := range map[string]int{keyAnn: 200, keyBob: 404, keyAll: 404} {
		status, _, _ := w.Do(http.MethodPost, "/mcp", strings.NewReader(list), "Authorization", "Bearer "+key, "Mcp-Session-Id", ann.ID(),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if status != want {
			t.Errorf("the session of ann with key %.3s: %d, want %d", key, status, want)
		}
	}
}

// Requests of web pages, of too many sessions and of none are refused.
func TestRefused(t *testing.T) {
	w := servetest.NewWith(t, &mcp.HandlerOptions{MaxOfParty: 2, MaxSessions: 3})
	post := func(body string, want int, headers ...string) {
		t.Helper()
		headers = append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, headers...)
		if status, _, text := w.Do(http.MethodPost, "/mcp", strings.NewReader(body), headers...); status != want {
			t.Errorf("%.60s %q: %d %s, want %d", body, headers, status, text, want)
		}
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	post(initialize, http.StatusForbidden, "Host", "evil.example")
	post(initialize, http.StatusForbidden, "Origin", "http://evil.example")
	post(initialize, http.StatusUnsupportedMediaType, "Content-Type", "text/plain")
	post("{", http.StatusBadRequest)
	for _, id := range []string{"1.5", "-0.5", "9007199254740993", "12345678901234567890123"} {
		post(strings.Replace(initialize, `"id":1`, `"id":`+id, 1), http.StatusBadRequest)
	}
	post(strings.Repeat("[", 1<<20), http.StatusBadRequest)
	post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, http.StatusNotFound, "Mcp-Session-Id", "AAAA")
	if status, _, _ := w.Do(http.MethodGet, "/mcp", nil, "Accept", "text/event-stream"); status != http.StatusBadRequest {
		t.Errorf("a GET without a session: %d", status)
	}
	// A session that a request uses is not replaced, one that is unused is.
	a, b := connect(w, "/mcp", ""), connect(w, "/mcp", "") // each waits for messages
	if _, err := dial(w, "/mcp", ""); err == nil {
		t.Error("a third session of one owner")
	}
	connect(w, "/mcp?owner=acme/web/ann", "")
	if _, err := dial(w, "/mcp?owner=acme/web/bob", ""); err == nil {
		t.Error("a fourth session")
	}
	w.OK(a.Close())
	post(initialize, http.StatusOK)
	post(initialize, http.StatusOK)
	post(initialize, http.StatusOK)
	if got := b.bash("echo here"); got != "here\n" {
		t.Errorf("a session that is used: %q", got)
	}
}

// A session that is not used for long enough ends, and its shell stays.
func TestIdle(t *testing.T) {
	w := servetest.NewWith(t, &mcp.HandlerOptions{Idle: time.Millisecond})
	const accept = "application/json, text/event-stream"
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	status, header, text := w.Do(http.MethodPost, "/mcp", strings.NewReader(initialize), "Content-Type", "application/json", "Accept", accept)
	id := header.Get("Mcp-Session-Id")
	if status != http.StatusOK || id == "" {
		t.Fatalf(`Do "/mcp" "Content-Type" "application/json" "Accept": got status %d, text %s; want status == http.StatusOK and id != ""`,
			status, text)
	}
	wait.Equal(t, "status of a session that is not used", http.StatusNotFound, func() int { // each request restarts the idle time
		status, _, _ := w.Do(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"ping"}`),
			"Content-Type", "application/json", "Accept", accept, "Mcp-Session-Id", id)
		return status
	})
}

// A sandbox that MCP makes counts for the quota of the API key that asked for it.
func TestQuotaOfKey(t *testing.T) {
	w := servetest.New(t, keys, func(o *service.Options) {
		o.Quotas = []quota.Rule{{Key: "*", Quota: quota.Quota{Sandboxes: 1}}}
	})
	connect(w, "/mcp?owner=acme/web/one", keyAll).bash("true")
	text, _, failed, err := connect(w, "/mcp?owner=acme/web/two", keyAll).tool(t.Context(), "bash", args{"command": "true"})
	if err != nil || !failed || !strings.Contains(text, "quota: API key") {
		t.Errorf("the second sandbox of a key that may have one: %s, %v, %v", text, failed, err)
	}
}
