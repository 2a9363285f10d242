package opensandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/runtime"
	"wolffia/service"
)

// Metadata of a sandbox that runs, or not, can be changed.
func TestMetadata(t *testing.T) {
	w := &world{servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n"+keyYan+" acme/web/yan\n")}
	as := func(key string) []string { return []string{"OPEN-SANDBOX-API-KEY", key} }
	zoe := as(keyZoe)
	var s sandbox
	w.OK(json.Unmarshal([]byte(w.is("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"metadata":{"team":"x","kept":"yes"}}`, 202, "", zoe...)), &s))
	path := "/v1/sandboxes/" + s.ID
	patch := func(body string, status int, part string, headers ...string) {
		t.Helper()
		w.is("PATCH", path+"/metadata", body, status, part, headers...)
	}
	patch(`{"team":null,"none":null,"stage":"prod"}`, 200, `"metadata":{"kept":"yes","stage":"prod"}`, zoe...)
	patch(`{}`, 200, `"state":"Running"`, zoe...)
	w.is("GET", "/v1/sandboxes?metadata=stage%3Dprod", "", 200, s.ID, zoe...)
	w.is("GET", "/v1/sandboxes?metadata=team%3Dx", "", 200, `"items":[]`, zoe...)
	w.is("POST", path+"/pause", "", 202, "", zoe...)
	patch(`{"stage":"test"}`, 200, `"state":"Paused"`, zoe...)
	w.is("POST", path+"/resume", "", 202, "", zoe...)
	w.is("GET", path, "", 200, `"metadata":{"kept":"yes","stage":"test"}`, zoe...)
	many := map[string]string{}
	for n := range service.MaxMetadata {
		many[fmt.Sprint("k", n)] = "v"
	}
	text, err := json.Marshal(many)
	w.OK(err)
	for body, want := range map[string]int{
		`{"a":"not a label"}`: 400, `{"wolffia.fleet":"x"}`: 400, `{"wolffia.fleet":null}`: 400, `{"opensandbox.io/id":"x"}`: 400, `{"a":3}`: 400,
		`null`: 400, ``: 400, `[]`: 400, string(text): 400,
	} {
		patch(body, want, "", zoe...)
	}
	patch(`{"a":"b"}`, 404, "SANDBOX_NOT_FOUND", as(keyYan)...)
	w.is("GET", path, "", 200, `"metadata":{"kept":"yes","stage":"test"}`, as(keyAll)...)
}

// A client gets what its sandbox has printed, and what became of it.
func TestDiagnostics(t *testing.T) {
	const source = "/home/ann/policy.yaml" // where a rule is from: only for the host
	w := &world{servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n", func(o *service.Options) {
		configure := o.Configure
		o.Configure = func(ctx context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
			c, err := configure(ctx, p)
			for i := range c.Permissions {
				c.Permissions[i].Source = source
			}
			return c, err
		}
		o.MayReach = func(*service.Params) error { return nil }
	})}
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "secret"), nil, 0o666))
	zoe, all := []string{"OPEN-SANDBOX-API-KEY", keyZoe}, []string{"OPEN-SANDBOX-API-KEY", keyAll}
	var s sandbox
	w.OK(json.Unmarshal([]byte(w.is("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"timeout":600,"networkPolicy":{"egress":[{"action":"allow","target":"a.example"}]},"entrypoint":["printf","one\\ntwo\\033[2J\\n"]}`, 202, "", zoe...)), &s))
	path := "/v1/sandboxes/" + s.ID + "/diagnostics"
	for text := ""; !strings.Contains(text, `"content":"one\ntwo�[2J\n"`); { // it is being run
		text = w.is("GET", path+"/logs?scope=container", "", 200, `"kind":"logs","scope":"container","delivery":"inline","contentType":"text/plain; charset=utf-8"`, zoe...)
	}
	w.is("GET", path+"/logs?scope=runtime", "", 200, "for keys without an owner", zoe...)
	if text := w.is("GET", path+"/logs?scope=all", "", 200, `one\n`, all...); strings.Contains(text, "warnings") {
		t.Errorf("all logs: %s", text)
	}
	if text := w.is("GET", path+"/events?scope=lifecycle", "", 200, "created", zoe...); !strings.Contains(text, "Running (RUNNING)") || !strings.Contains(text, "expires") {
		t.Errorf("events: %s", text)
	}
	w.is("POST", "/sandboxes/"+s.ID+"/port/44772/command", `{"command":"cat secret; getent hosts b.example"}`, 200, "No such file", zoe...)
	for scope, want := range map[string]string{"process": "secret", "network": "b.example", "all": "secret"} {
		text := ""
		for !strings.Contains(text, want) { // it is being written
			text = w.is("GET", path+"/events?scope="+scope, "", 200, `"kind":"events"`, zoe...)
		}
		if scope != "all" && strings.Contains(text, "secret") == strings.Contains(text, "b.example") || strings.Contains(text, source) {
			t.Errorf("events of scope %s: %s", scope, text)
		}
	}
	status, header, text := w.Do("GET", path+"/logs?tail=1", nil, zoe...)
	if status != 200 || text != "two�[2J\n" || header.Get("Deprecation") != "true" || header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("without a scope: %d %v %q", status, header, text)
	}
	for kind, want := range map[string]string{"inspect": `"mountPoint": "/workspace"`, "summary": "one", "events": "b.example"} {
		if status, _, text := w.Do("GET", path+"/"+kind, nil, zoe...); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: got status %d, text %s; want status == 200 and text contains %s", kind, status, text, want)
		}
	}
	w.is("GET", path+"/logs?scope=odd", "", 400, "must be one of container", zoe...)
	w.is("GET", path+"/logs?tail=0", "", 400, "tail", zoe...)
	w.is("GET", path+"/logs?since=10m", "", 501, "since", zoe...)
	w.is("GET", path+"/odd", "", 404, "NOT_FOUND", zoe...)
	w.is("POST", "/v1/sandboxes/"+s.ID+"/pause", "", 202, "", zoe...)
	w.is("GET", path+"/logs?scope=container", "", 200, "is not running", zoe...)
	w.is("GET", path+"/events?scope=lifecycle", "", 200, "Paused (STOPPED)", zoe...)
}

// What a sandbox with a filtered network reaches can be changed while it runs.
func TestEgress(t *testing.T) {
	allowed := true
	w := &world{servetest.New(t, "", func(o *service.Options) {
		o.MayReach = func(p *service.Params) error {
			if !allowed {
				return runtime.Errorf(runtime.ErrDenied, "not now")
			}
			return nil
		}
	})}
	id, _ := w.create(`{"image":{"uri":"host"},"networkPolicy":{"defaultAction":"deny","egress":[{"action":"allow","target":"a.example"}]}}`)
	path := "/sandboxes/" + id + "/port/18080/policy"
	is := func(method, body string, status int, part string) {
		t.Helper()
		w.is(method, path, body, status, part)
	}
	is("GET", "", 200, `"mode":"enforcing","enforcementMode":"network-namespace"`)
	is("GET", "", 200, `"policy":{"defaultAction":"deny","egress":[{"action":"allow","target":"a.example"}]}`)
	is("PATCH", `[{"action":"allow","target":"*.b.example"},{"action":"deny","target":"*.b.example"},{"action":"deny","target":"a.example"}]`, 200, `"egress":[{"action":"allow","target":"*.b.example"}]`)
	is("PATCH", `[{"action":"deny","target":"x.b.example"}]`, 501, "another rule allows it")
	is("PATCH", `[{"action":"allow","target":"10.0.0.1"}]`, 400, "address")
	is("PATCH", `[{"action":"log","target":"c.example"}]`, 400, "must be")
	is("PATCH", `{}`, 400, "wrong type")
	is("GET", "", 200, `"egress":[{"action":"allow","target":"*.b.example"}]`)
	is("PATCH", `[{"action":"allow","target":"a.example"}]`, 200, "a.example")
	allowed = false
	is("PATCH", `[{"action":"allow","target":"c.example"}]`, 403, "DENIED")
	allowed = true
	is("DELETE", `["*.b.example","none.example"]`, 200, `"egress":[{"action":"allow","target":"a.example"}]`)
	w.Restart()
	is("GET", "", 200, `"egress":[{"action":"allow","target":"a.example"}]`)
	w.is("GET", "/v1/sandboxes/"+id+"/proxy/18080/policy", "", 200, "a.example")
	path = "/v1/sandboxes/" + id + "/networkpolicy"
	is("GET", "", 200, `"egress":[{"action":"allow","target":"a.example"}]`)
	is("PUT", `{"defaultAction":"allow"}`, 501, "a sandbox reaches nothing")
	is("PUT", `{"egress":[{"action":"allow","target":"d.example"}]}`, 200, `"egress":[{"action":"allow","target":"d.example"}]`)
	is("DELETE", `["d.example"]`, 200, `"egress":[]`)
	is("PUT", `{}`, 200, `"egress":[]`)
	w.is("POST", "/v1/templates", "{}", 501, "wolffia commit")

	id, _ = w.create("")
	path = "/sandboxes/" + id + "/port/18080/policy"
	is("PATCH", `[{"action":"deny","target":"a.example"}]`, 200, `"egress":[]`)
	is("DELETE", `["a.example"]`, 200, `"mode":"deny_all"`)
	is("PATCH", `[{"action":"allow","target":"a.example"}]`, 409, "create one with a policy")
}

// The machine's load is sent each second, and the first at once.
func TestWatchMetrics(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.Address+execd+"/metrics/watch", nil)
	w.OK(err)
	res, err := w.Client.Do(req)
	w.OK(err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for range 2 {
		var u struct {
			CPUs  int     `json:"cpu_count"`
			Total float64 `json:"mem_total_mib"`
		}
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &u) != nil || u.CPUs == 0 || u.Total == 0 {
			t.Fatalf("Text: got %q, %v; want lines.Scan() and json.Unmarshal(lines.Bytes(), &u) == nil and u.CPUs != 0 and u.Total != 0",
				lines.Text(), lines.Err())
		}
	}
	for path, reason := range map[string]string{
		"GET /v1/isolated/capabilities": "", "POST /v1/isolated/session": "isolated sessions", "GET /execution/instance": "operations", "POST /command/operations": "operations",
	} {
		method, rest, _ := strings.Cut(path, " ")
		if reason == "" {
			w.is(method, execd+rest, "", 200, `"available":false`)
			continue
		}
		w.is(method, execd+rest, "", 501, reason)
	}
}
