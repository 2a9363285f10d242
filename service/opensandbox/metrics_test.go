package opensandbox_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
)

func TestMetrics(t *testing.T) {
	w := &world{servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n")}
	w.is("GET", "/metrics", "", 401, "MISSING_API_KEY")
	w.is("GET", "/metrics", "", 403, "DENIED", "OPEN-SANDBOX-API-KEY", keyZoe)
	counts := func() string {
		status, header, text := w.Do("GET", "/metrics", nil, "OPEN-SANDBOX-API-KEY", keyAll)
		if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Fatalf(`Do "GET" "/metrics" "OPEN-SANDBOX-API-KEY": got status %d, header %v, text %s; want status == http.StatusOK and header.Get("Content-Type") begins with "text/plain; version=0.0.4"`,
				status, header, text)
		}
		return text
	}
	has := func(text string, lines ...string) {
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no %q in\n%s", line, text)
			}
		}
	}
	has(counts(), `wolffia_sandboxes{state="running"} 0`, "wolffia_start_duration_seconds_count 0", "# TYPE wolffia_denials_total counter")
	as := []string{"OPEN-SANDBOX-API-KEY", keyZoe, "Content-Type", "application/json"}
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "secret"), nil, 0o600))
	_, _, text := w.Do("POST", "/v1/sandboxes", strings.NewReader(`{"image":{"uri":"host"}}`), as...)
	_, id, _ := strings.Cut(text, `"id":"`)
	execd := "/sandboxes/" + id[:12] + "/port/44772"
	w.Do("POST", execd+"/command", strings.NewReader(`{"command":"touch /workspace/secret"}`), as...)
	w.Do("POST", "/v1/sandboxes", strings.NewReader(`{"image":{"uri":"not-there:1"}}`), as...)
	has(counts(), `wolffia_sandboxes{state="running"} 1`, "wolffia_start_duration_seconds_count 1", `wolffia_start_duration_seconds_bucket{le="+Inf"} 1`,
		`wolffia_requests_total{call="/metrics",status="401"} 1`, `wolffia_requests_total{call="/metrics",status="403"} 1`,
		`wolffia_requests_total{call="POST /v1/sandboxes",status="202"} 1`,
		`wolffia_owner_sandboxes{organization="acme",project="web",user="zoe",state="running"} 1`, "wolffia_network_refusals_total 0",
		"wolffia_start_failures_total 1", "wolffia_exec_duration_seconds_count 1", "wolffia_session_exec_duration_seconds_count 0")
	if strings.Contains(counts(), "wolffia_denials_total 0\n") {
		t.Error("the denials are not counted")
	}
}

// What the pages for operators name is there.
func TestMetricsOfDocs(t *testing.T) {
	w := newWorld(t)
	_, _, text := w.Do("GET", "/metrics", nil)
	has := map[string]bool{"wolffia_pooled_sandboxes": true, "wolffia_pooled_claimed_total": true} // with --warm: servewarm.txtar
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (wolffia_\w+) `).FindAllStringSubmatch(text, -1) {
		has[m[1]] = true
	}
	named := map[string]bool{}
	for _, page := range []string{"operating.md", "operating/alerts.yaml", "operating/dashboard.json"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		w.OK(err)
		for _, name := range regexp.MustCompile(`wolffia_\w+`).FindAllString(string(text), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			if named[name] = true; !has[name] {
				t.Errorf("docs/%s: there is no metric %s", page, name)
			}
		}
	}
	for name := range has {
		if !named[name] {
			t.Errorf("no page for operators names the metric %s", name)
		}
	}
}

// The document has each call, with the types that it takes and returns.
func TestOpenAPI(t *testing.T) {
	w := newWorld(t)
	var d struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			}
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			}
		}
	}
	w.OK(json.Unmarshal([]byte(w.is("GET", "/v1/openapi.json", "", 200, "openapi")), &d))
	create := d.Paths["/v1/sandboxes"]["post"]
	for _, field := range []string{"image", "timeout", "networkPolicy", "metadata"} {
		if create.RequestBody.Content["application/json"].Schema.Properties[field] == nil {
			t.Errorf("the document of create has no %s", field)
		}
	}
	if create.Responses["202"].Content["application/json"].Schema.Properties["expiresAt"] == nil {
		t.Error("the document has no reply to create")
	}
	run := d.Paths["/sandboxes/{id}/port/44772/command"]["post"]
	if run.Responses["200"].Content["text/event-stream"].Schema.Properties["execution_time"] == nil || run.Parameters[0].Name != "id" {
		t.Errorf("the document of command: %+v", run)
	}
	n := 0
	for path, operations := range d.Paths {
		for method, o := range operations {
			n++
			if o.Summary == "" || o.Responses["default"].Content["application/json"].Schema.Properties["code"] == nil || strings.Count(path, "{") > len(o.Parameters) {
				t.Errorf(`got method %s, path %s, o %+v; want o.Summary != "" and o.Responses["default"].Content["application/json"].Schema.Properties["code"] != nil and strings.Count(path, "{") <= len(o.Parameters)`,
					method, path, o)
			}
		}
	}
	if n < 25 {
		t.Errorf("the document has %d calls", n)
	}
}
