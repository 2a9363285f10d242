package opensandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/opensandbox"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// is checks the status and the code of an error.
func is(t *testing.T, what string, err error, status int, code string) {
	t.Helper()
	if api, ok := errors.AsType[*opensandbox.APIError](err); !ok || api.Status != status || api.Code != code {
		t.Errorf("%s: %v, want %d %s", what, err, status, code)
	}
}

// All methods, against wolffia.
func TestClient(t *testing.T) {
	const key = "0123456789abcdef"
	w := servetest.New(t, key)
	c := opensandbox.New("http://"+w.Address+"/v1/", key, w.Client)
	ctx := w.Ctx
	sb, err := c.CreateSandbox(ctx, opensandbox.SandboxOpts{
		Image: "host", Env: map[string]string{"A": "b"}, Metadata: map[string]string{"team": "x"}, Timeout: 600,
		NetworkPolicy: &opensandbox.NetworkPolicy{DefaultAction: "deny"},
	})
	w.OK(err)
	if sb, err = c.WaitReady(ctx, sb.ID); err != nil || sb.State != "Running" || sb.Metadata["team"] != "x" || sb.CreatedAt.IsZero() ||
		sb.ExpiresAt.Sub(sb.CreatedAt).Round(time.Second) != 10*time.Minute {
		t.Fatalf(`WaitReady: got sb %+v, err %v; want err == nil and sb.State == "Running" and sb.Metadata["team"] == "x" and not sb.CreatedAt.IsZero() and sb.ExpiresAt.Sub(sb.CreatedAt).Round(time.Second) == 10*time.Minute`,
			sb, err)
	}
	execd, headers, err := c.DiscoverExecD(ctx, sb.ID)
	w.OK(err)
	if len(headers) != 1 || execd != "http://"+w.Address+"/sandboxes/"+sb.ID+"/port/44772" {
		t.Errorf("execd is at %s, %v", execd, headers)
	}
	w.OK(c.Ping(ctx, execd))
	port, err := c.GetEndpoint(ctx, sb.ID, 80)
	if err != nil || port.URL != "http://"+w.Address+"/sandboxes/"+sb.ID+"/port/80" {
		t.Errorf("a port inside is at %+v, %v", port, err)
	}

	w.OK(c.UploadFiles(ctx, execd, []opensandbox.FileUpload{{Path: "/tmp/d/a.txt", Content: []byte("a\n"), Mode: 0o640}, {Path: "/tmp/d/b", Content: []byte{0, 255}}}))
	r, err := c.RunCommand(ctx, execd, `stat -c %a a.txt; printf "$A\377"; echo err >&2; exit 3`, "/tmp/d", 60_000)
	if err != nil || r.Stdout != "640\nb\xff" || r.Stderr != "err\n" || r.ExitCode != 3 || r.Error != "" {
		t.Errorf(`RunCommand %q "/tmp/d": got r %+v, err %v; want err == nil and r.Stdout == %q and r.Stderr == %q and r.ExitCode == 3 and r.Error == ""`,
			`stat -c %a a.txt; printf "$A\377"; echo err >&2; exit 3`, r, err, "640\nb\xff", "err\n")
	}
	if r, err = c.RunCommand(ctx, execd, "true", "", 0); err != nil || r.ExitCode != 0 || r.Stdout != "" || r.Error != "" {
		t.Errorf(`RunCommand "true": got r %+v, err %v; want err == nil and r.ExitCode == 0 and r.Stdout == "" and r.Error == ""`, r, err)
	}
	if r, err = c.RunCommand(ctx, execd, "sleep 1000", "", 100); err != nil || r.ExitCode != -1 || r.Error == "" {
		t.Errorf(`RunCommand "sleep 1000": got r %+v, err %v; want err == nil and r.ExitCode == -1 and r.Error != ""`, r, err)
	}
	_, err = c.RunCommand(ctx, execd, "true", "/nowhere", 0)
	is(t, "no such directory", err, 400, "INVALID_REQUEST_BODY")
	found, err := c.SearchFiles(ctx, execd, "/tmp/d", "*.txt")
	if err != nil || len(found) != 1 || found[0].Path != "/tmp/d/a.txt" || found[0].Size != 2 || found[0].ModifiedAt.IsZero() {
		t.Errorf(`SearchFiles "/tmp/d" "*.txt": got found %+v, err %v; want err == nil and len(found) == 1 and found[0].Path == "/tmp/d/a.txt" and found[0].Size == 2 and not found[0].ModifiedAt.IsZero()`,
			found, err)
	}
	content, err := c.DownloadFile(ctx, execd, "/tmp/d/b")
	w.OK(err)
	text, err := io.ReadAll(content)
	if _ = content.Close(); err != nil || !bytes.Equal(text, []byte{0, 255}) {
		t.Errorf("io.ReadAll: got %q, %v; want []byte{0, 255}, nil", text, err)
	}
	_, err = c.DownloadFile(ctx, execd, "/tmp/none")
	is(t, "no such file", err, 404, "FILE_NOT_FOUND")

	if all, err := c.ListSandboxes(ctx, map[string]string{"team": "x"}); err != nil || len(all) != 1 || all[0].ID != sb.ID {
		t.Errorf("ListSandboxes: got all %+v, err %v; want err == nil and len(all) == 1 and all[0].ID == %v", all, err, sb.ID)
	}
	if none, err := c.ListSandboxes(ctx, map[string]string{"team": "y"}); err != nil || len(none) != 0 {
		t.Errorf("ListSandboxes: got none %+v, err %v; want err == nil and len(none) == 0", none, err)
	}
	w.OK(c.DeleteSandbox(ctx, sb.ID))
	_, err = c.GetSandbox(ctx, sb.ID)
	is(t, "it was deleted", err, 404, "SANDBOX_NOT_FOUND")
	is(t, "twice", c.DeleteSandbox(ctx, sb.ID), 404, "SANDBOX_NOT_FOUND")
	_, err = opensandbox.New("http://"+w.Address+"/v1", "wrong-0123456789", w.Client).GetSandbox(ctx, sb.ID)
	is(t, "a wrong key", err, 401, "INVALID_API_KEY")
	for _, url := range []string{"", "localhost:8080/v1", "ftp://x/v1", ":"} {
		if _, err := opensandbox.New(url, "", nil).GetSandbox(ctx, "x"); err == nil {
			t.Errorf("the URL %q is taken", url)
		}
	}
}

// An original speaks as OpenSandbox does: only the official fields, an execd that is another
// host and wants a token, and execd's own form of errors.
func original(t *testing.T) (*opensandbox.Client, string) {
	t.Helper()
	execd := http.NewServeMux()
	stream := func(frames string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"command":`) {
				t.Errorf("the body is %s", body)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, frames)
		}
	}
	replies := map[string]string{
		"ok": `{"type":"init","text":"id","timestamp":1}

{"type":"ping","text":"pong","timestamp":1}

{"type":"stdout","text":"a","timestamp":1}

{"type":"stdout","text":"\n","timestamp":1}

{"type":"stderr","text":"e","timestamp":1}

{"type":"execution_complete","execution_time":7,"timestamp":1}

`,
		"data":    "event: x\ndata: {\"type\":\"stdout\",\"text\":\"a\"}\n\n: comment\n\ndata: {\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"5\",\"traceback\":[\"exit status 5\"]}}\n\n",
		"timeout": `{"type":"error","error":{"ename":"CommandExecError","evalue":"-1","traceback":["signal: killed"]}}`,
		"other":   `{"type":"error","error":{"ename":"Oops","evalue":"no shell"}}`,
		"old":     "{\"type\":\"stdout\",\"data\":\"x\"}\n\n{\"type\":\"execution_complete\",\"exitCode\":9,\"durationMs\":4}\n\n",
		"cut":     `{"type":"stdout","text":"a"}`,
		"code":    `{"code":"RUNTIME_ERROR","message":"x"}`,
	}
	for name, frames := range replies {
		execd.HandleFunc("POST /"+name+"/command", stream(frames))
	}
	token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("OPEN-SANDBOX-API-KEY") != "":
			t.Error("the API key was sent to another host")
		case strings.HasPrefix(r.URL.Path, "/ok") && r.Header.Get("X-EXECD-ACCESS-TOKEN") != "t":
			w.WriteHeader(401)
			fmt.Fprint(w, `{"error":"Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"}`)
			return
		}
		execd.ServeHTTP(w, r)
	}))
	t.Cleanup(token.Close)
	host := strings.TrimPrefix(token.URL, "http://")
	states := []string{"Pending", "Running"}
	life := http.NewServeMux()
	life.HandleFunc("POST /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if want := `{"entrypoint":["tail","-f","/dev/null"],"env":{},"image":{"uri":"i"},"metadata":{},"resourceLimits":{}}`; string(body) != want {
			t.Errorf("create: %s", body)
		}
		w.WriteHeader(202)
		fmt.Fprint(w, `{"id":"s1","status":{"state":"Pending"},"createdAt":"2026-01-02T03:04:05Z","entrypoint":["x"]}`)
	})
	life.HandleFunc("GET /v1/sandboxes/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "failed" {
			fmt.Fprint(w, `{"id":"failed","status":{"state":"Failed","message":"no image"}}`)
			return
		}
		fmt.Fprintf(w, `{"id":"s1","status":{"state":%q},"createdAt":"2026-01-02T03:04:05Z","expiresAt":null}`, states[0])
		states = states[min(1, len(states)-1):]
	})
	life.HandleFunc("GET /v1/sandboxes/{id}/endpoints/{port}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"endpoint":"%s/ok","headers":{"X-EXECD-ACCESS-TOKEN":"t"}}`, host)
	})
	life.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("page")
		if got := r.URL.Query().Get("metadata"); got != "a=b&c=d" {
			t.Errorf("metadata is %q", got)
		}
		fmt.Fprintf(w, `{"items":[{"id":"p%s","status":{"state":"Running"}}],"pagination":{"hasNextPage":%v}}`, page, page == "1")
	})
	life.HandleFunc("DELETE /v1/sandboxes/{id}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, token.URL+"/stolen", http.StatusTemporaryRedirect)
	})
	server := httptest.NewServer(life)
	t.Cleanup(server.Close)
	return opensandbox.New(server.URL+"/v1", "secret-key", nil), token.URL
}

func TestOriginal(t *testing.T) {
	c, other := original(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sb, err := c.CreateSandbox(ctx, opensandbox.SandboxOpts{Image: "i"})
	if err != nil || sb.ID != "s1" || sb.State != "Pending" || sb.CreatedAt.Year() != 2026 {
		t.Fatalf(`CreateSandbox: got sb %+v, err %v; want err == nil and sb.ID == "s1" and sb.State == "Pending" and sb.CreatedAt.Year() == 2026`,
			sb, err)
	}
	if sb, err = c.WaitReady(ctx, "s1"); err != nil || sb.State != "Running" || !sb.ExpiresAt.IsZero() {
		t.Errorf(`WaitReady "s1": got sb %+v, err %v; want err == nil and sb.State == "Running" and sb.ExpiresAt.IsZero()`, sb, err)
	}
	if _, err = c.WaitReady(ctx, "failed"); err == nil || !strings.Contains(err.Error(), "no image") {
		t.Errorf("a failed one: %v", err)
	}
	if all, err := c.ListSandboxes(ctx, map[string]string{"c": "d", "a": "b"}); err != nil || len(all) != 2 || all[1].ID != "p2" {
		t.Errorf(`ListSandboxes: got all %+v, err %v; want err == nil and len(all) == 2 and all[1].ID == "p2"`, all, err)
	}
	_, err = c.RunCommand(ctx, other+"/ok", "x", "", 0)
	is(t, "without the endpoint's headers", err, 401, "")
	execd, headers, err := c.DiscoverExecD(ctx, "s1")
	if err != nil || headers["X-EXECD-ACCESS-TOKEN"] != "t" {
		t.Fatalf(`DiscoverExecD "s1": got headers %v, err %v; want err == nil and headers["X-EXECD-ACCESS-TOKEN"] == "t"`, headers, err)
	}
	r, err := c.RunCommand(ctx, execd, "x", "/d", 5)
	if err != nil || *r != (opensandbox.CommandResult{Stdout: "a\n\n", Stderr: "e\n", Duration: 7 * time.Millisecond}) {
		t.Errorf(`RunCommand "x" "/d": got r %+v, err %v; want err == nil and *r == opensandbox.CommandResult{Stdout: %q, Stderr: %q, Duration: 7 * time.Millisecond}`,
			r, err, "a\n\n", "e\n")
	}
	for path, want := range map[string]opensandbox.CommandResult{
		"data":    {Stdout: "a\n", ExitCode: 5},
		"timeout": {ExitCode: -1, Error: "the command was killed, as after its timeout"},
		"other":   {ExitCode: -1, Error: "Oops: no shell"},
		"old":     {Stdout: "x\n", ExitCode: 9, Duration: 4 * time.Millisecond},
	} {
		if r, err := c.RunCommand(ctx, other+"/"+path, "x", "", 0); err != nil || *r != want {
			t.Errorf("%s: got r %+v, err %v; want err == nil and *r == %v", path, r, err, want)
		}
	}
	for _, path := range []string{"cut", "code"} {
		if r, err := c.RunCommand(ctx, other+"/"+path, "x", "", 0); err == nil {
			t.Errorf("%s: got r %+v; want err != nil", path, r)
		}
	}
	is(t, "a redirect", c.DeleteSandbox(ctx, "s1"), 307, "")
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.WaitReady(stopped, "s1"); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitReady goes on: %v", err)
	}
}
