package opensandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"wolffia/internal/test/servetest"
	"wolffia/runtime"
	"wolffia/service"
)

func TestLifecycle(t *testing.T) {
	w := newWorld(t)
	status, header, text := w.Do(http.MethodPost, "/v1/sandboxes", strings.NewReader(
		`{"image":{"uri":"host"},"entrypoint":["tail","-f","/dev/null"],"resourceLimits":{},"env":{"A":"b c"},"metadata":{"team":"x"},"timeout":600,"unknown":{}}`),
		"Content-Type", "application/json")
	var s struct {
		ID                   string
		Status               struct{ State string }
		CreatedAt, ExpiresAt time.Time
		Entrypoint           []string
		Metadata             map[string]string
		State                string
		Expires              time.Time `json:"expires_at"`
		Created              time.Time `json:"created_at"`
	}
	w.OK(json.Unmarshal([]byte(text), &s))
	if status != http.StatusAccepted || header.Get("Location") != "/v1/sandboxes/"+s.ID || s.Status.State != "Running" || s.State != "Running" ||
		len(s.Entrypoint) != 3 || s.Metadata["team"] != "x" || len(s.Metadata) != 1 || s.ExpiresAt.Sub(s.CreatedAt).Round(time.Second) != 10*time.Minute ||
		!s.Expires.Equal(s.ExpiresAt) || !s.Created.Equal(s.CreatedAt) {
		t.Fatalf("created %d %v %s", status, header, text)
	}
	path := "/v1/sandboxes/" + s.ID
	execd := "/sandboxes/" + s.ID + "/port/44772"
	if got := output(w.run(execd+"/command", m{"command": `echo "$A"; pwd`}), "stdout"); got != "b c\n/workspace\n" {
		t.Errorf("it is not as asked for: %q", got)
	}
	w.is("GET", path, "", 200, `"id":"`+s.ID+`"`)
	for _, port := range []string{"44772", "18080"} {
		w.is("GET", path+"/endpoints/"+port+"?use_server_proxy=false", "", 200, fmt.Sprintf(`{"endpoint":"%s/sandboxes/%s/port/%s"}`, w.Address, s.ID, port))
	}
	w.is("GET", path+"/endpoints/8080", "", 200, fmt.Sprintf(`{"endpoint":"%s/sandboxes/%s/port/8080"}`, w.Address, s.ID))
	w.is("GET", path+"/endpoints/0", "", 400, "INVALID_PARAMETER")
	w.is("GET", path+"/endpoints/44772?expires=1", "", 501, "signs no endpoints")
	w.is("GET", "/sandboxes/"+s.ID+"/port/8080/x", "", 502, "no server listens there")
	w.is("GET", "/sandboxes/"+s.ID+"/port/18080/policy", "", 200, `"policy":{"defaultAction":"deny","egress":[]}`)
	w.is("PATCH", "/sandboxes/"+s.ID+"/port/18080/policy", `[{"action":"allow","target":"example.com"}]`, 409, "create one with a policy")

	// Its end can be put off, not brought forward.
	later := s.ExpiresAt.Add(time.Hour).UTC().Truncate(time.Second)
	w.is("POST", path+"/renew-expiration", `{"expiresAt":"`+later.Format(time.RFC3339)+`"}`, 200, later.Format("2006-01-02T15:04"))
	w.is("POST", path+"/renew-expiration", `{"expiresAt":"`+s.ExpiresAt.Format(time.RFC3339)+`"}`, 400, "INVALID_EXPIRATION")
	w.is("POST", path+"/renew-expiration", `{"expiresAt":"9999-01-01T00:00:00Z"}`, 400, "the new end is too late: time to live 2562047h")
	w.is("POST", path+"/renew-expiration", `{"expiresAt":"yesterday"}`, 400, "INVALID_REQUEST_BODY")
	w.is("POST", path+"/renew-expiration", `{}`, 400, "INVALID_EXPIRATION")

	// Pause ends the processes, and keeps the files.
	w.run(execd+"/command", m{"command": "echo kept >/workspace/file"})
	for _, c := range []struct {
		call   string
		status int
	}{{"/resume", 409}, {"/pause", 202}, {"/pause", 409}} {
		if status, header, text := w.Do("POST", path+c.call, nil); status != c.status || status == 202 && (text != "" || header.Get("Content-Length") != "0") {
			t.Fatalf(`%s: got status %d, header %v, text %s; want status == %d and (status != 202 or (text == "" and header.Get("Content-Length") == "0"))`,
				c.call, status, header, text, c.status)
		}
	}
	w.is("GET", path, "", 200, `"state":"Paused"`)
	w.is("GET", execd+"/ping", "", 409, "is not running")
	w.is("POST", execd+"/command", `{"command":"true"}`, 409, "is not running")
	w.is("GET", "/v1/sandboxes?state=Paused", "", 200, s.ID)
	w.is("POST", path+"/resume", "", 202, "")
	if got := output(w.run(execd+"/command", m{"command": "cat file"}), "stdout"); got != "kept\n" {
		t.Errorf("after a pause: %q", got)
	}
	if status, header, text := w.Do("GET", execd+"/ping", nil); status != 200 || text != "" || header.Get("Content-Length") != "0" {
		t.Errorf("ping: %d %v %q", status, header, text)
	}
	w.is("POST", "/v1/metrics/events", `{"eventType":"sandbox.create"}`, 204, "")

	if status, _, text := w.Do("DELETE", path, nil); status != 204 || text != "" {
		t.Errorf("delete: %d %s", status, text)
	}
	for _, gone := range []string{path, path + "/endpoints/44772", execd + "/ping", "/v1/sandboxes/x", "/v1/sandboxes/" + s.ID[:8]} {
		w.is("GET", gone, "", 404, "SANDBOX_NOT_FOUND")
	}
	w.is("DELETE", path, "", 404, "SANDBOX_NOT_FOUND")
	w.is("GET", "/v1/nothing", "", 404, "NOT_FOUND")
}

func TestCreateRefuses(t *testing.T) {
	w := newWorld(t)
	const image = `"image":{"uri":"host"}`
	for body, want := range map[string]string{
		`{`:                                     "400 INVALID_REQUEST_BODY",
		`{"image":3}`:                           "400 INVALID_REQUEST_BODY",
		`{}`:                                    "400 INVALID_PARAMETER",
		`{` + image + `,"timeout":59}`:          "400 INVALID_PARAMETER",
		`{` + image + `,"timeout":-1}`:          "400 INVALID_PARAMETER",
		`{` + image + `,"timeout":99999999999}`: "400 INVALID_PARAMETER",
		`{` + image + `,"timeout":"600"}`:       "400 INVALID_REQUEST_BODY",
		`{` + image + `,"resourceLimits":{"memory":"lots"}}`:                                                "400 INVALID_PARAMETER",
		`{` + image + `,"resourceLimits":{"gpu":"1"}}`:                                                      "501 NOT_SUPPORTED",
		`{` + image + `,"metadata":{"wolffia.fleet":"x"}}`:                                                  "400 SANDBOX::INVALID_METADATA_LABEL",
		`{` + image + `,"metadata":{"wolffia.fleet/x":"x"}}`:                                                "400 SANDBOX::INVALID_METADATA_LABEL",
		`{` + image + `,"metadata":{"opensandbox.io/id":"x"}}`:                                              "400 SANDBOX::INVALID_METADATA_LABEL",
		`{` + image + `,"metadata":{"a":"not a label"}}`:                                                    "400 SANDBOX::INVALID_METADATA_LABEL",
		`{` + image + `,"env":{"A=B":"x"}}`:                                                                 "400 INVALID_PARAMETER",
		`{` + image + `,"networkPolicy":{"defaultAction":"allow"}}`:                                         "501 NOT_SUPPORTED",
		`{` + image + `,"networkPolicy":{"egress":[{"action":"allow","target":"a.example"}]}}`:              "403 DENIED",
		`{` + image + `,"volumes":[{"name":"v","mountPath":"/v","host":{"path":"/etc"}}]}`:                  "403 DENIED",
		`{` + image + `,"volumes":[{"name":"v","mountPath":"v","host":{"path":"/etc"}}]}`:                   "400 INVALID_PARAMETER",
		`{` + image + `,"volumes":[{"name":"v","mountPath":"/v","subPath":"../x","host":{"path":"/etc"}}]}`: "400 INVALID_PARAMETER",
		`{` + image + `,"volumes":[{"name":"V","mountPath":"/v","host":{"path":"/etc"}}]}`:                  "400 INVALID_PARAMETER",
		`{` + image + `,"volumes":[{"name":"v","mountPath":"/v"}]}`:                                         "400 INVALID_PARAMETER",
		`{` + image + `,"volumes":[{"name":"v","mountPath":"/v","pvc":{"claimName":"c"}}]}`:                 "501 NOT_SUPPORTED",
		`{` + image + `,"codebase":"/etc"}`:                                                                 "403 DENIED",
		`{` + image + `,"extensions":{"preset":"read-only"}}`:                                               "403 DENIED",
		`{` + image + `,"rules":["a=read"],"extensions":{"rules":"b=read"}}`:                                "400 INVALID_PARAMETER",
		`{` + image + `,"platform":{"os":"windows","arch":"amd64"}}`:                                        "501 NOT_SUPPORTED",
		`{` + image + `,"secureAccess":true}`:                                                               "501 NOT_SUPPORTED",
		`{` + image + `,"resourceRequests":{"cpu":"1"}}`:                                                    "501 NOT_SUPPORTED",
		`{` + image + `,"entrypoint":["/no/such"]}`:                                                         "400 INVALID_PARAMETER",
		`{` + image + `,"credentialProxy":{"enabled":true}}`:                                                "501 NOT_SUPPORTED",
		`{` + image + `,"extensions":{"poolRef":"p"}}`:                                                      "501 NOT_SUPPORTED",
		`{"snapshotId":"s"}`:                                                 "404 SANDBOX_NOT_FOUND",
		`{"image":{"uri":"x","auth":{"username":"u"}}}`:                      "501 NOT_SUPPORTED",
		`{"image":{"uri":"not-there:1"}}`:                                    "400 IMAGE_NOT_FOUND",
		`{` + image + `,"entrypoint":["` + strings.Repeat("x", 5000) + `"]}`: "400 INVALID_PARAMETER",
	} {
		status, text := w.call("POST", "/v1/sandboxes", body)
		if code, reason, _ := strings.Cut(want, " "); fmt.Sprint(status) != code || !strings.Contains(text, `"`+reason+`"`) {
			t.Errorf("%.200s: %d %s, want %s", body, status, text, want)
		}
	}
	w.is("POST", "/v1/sandboxes/x/snapshots", "", 404, "SANDBOX_NOT_FOUND")
	w.is("GET", "/v1/snapshots", "", 200, `"totalItems":0`)
	w.is("POST", "/v1/sandboxes/x/fork", "", 404, "x")
	w.is("POST", "/v1/sandboxes/x/fork", `{"timeout":1}`, 400, "timeout 1")
	w.is("POST", "/v1/sandboxes", strings.Repeat(" ", 2<<20), 413, "TOO_LARGE")
	w.is("GET", "/v1/sandboxes", "", 200, `"totalItems":0`)
	w.is("POST", "/v1/sandboxes", `{`+image+`,"networkPolicy":{"defaultAction":"deny"}}`, 202, "Running")
}

func TestList(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for n := range 3 {
		id, _ := w.create(fmt.Sprintf(`{"image":{"uri":"host"},"metadata":{"n":"%d","all":"yes"}}`, n))
		ids = append(ids, id)
	}
	list := func(query string) (found []string, page struct {
		Page, PageSize, TotalItems, TotalPages int
		HasNextPage                            bool
	},
	) {
		var l struct {
			Items      []sandbox
			Pagination struct {
				Page, PageSize, TotalItems, TotalPages int
				HasNextPage                            bool
			}
		}
		w.OK(json.Unmarshal([]byte(w.is("GET", "/v1/sandboxes"+query, "", 200, `"items":[`)), &l))
		for _, s := range l.Items {
			found = append(found, s.ID)
		}
		return found, l.Pagination
	}
	if all, p := list(""); fmt.Sprint(all) != fmt.Sprint([]string{ids[2], ids[1], ids[0]}) || p.Page != 1 || p.PageSize != 20 || p.TotalItems != 3 || p.TotalPages != 1 || p.HasNextPage {
		t.Errorf("all: %v %+v", all, p)
	}
	if some, p := list("?page=2&pageSize=2"); fmt.Sprint(some) != fmt.Sprint(ids[:1]) || p.TotalPages != 2 || p.HasNextPage {
		t.Errorf("the second page: %v %+v", some, p)
	}
	if some, p := list("?page=1&pageSize=2"); len(some) != 2 || !p.HasNextPage {
		t.Errorf("the first page: %v %+v", some, p)
	}
	if none, p := list("?page=1000000"); len(none) != 0 || p.HasNextPage {
		t.Errorf("a page far beyond: %v %+v", none, p)
	}
	for query, n := range map[string]int{
		"?metadata=n%3D1": 1, "?metadata=n%3D1%26all%3Dyes": 1, "?metadata=n%3D1%26all%3Dno": 0, "?metadata=all%3Dyes": 3, "?metadata=none%3D": 0,
		"?state=Running&state=Paused": 3, "?state=Failed": 0,
	} {
		if found, _ := list(query); len(found) != n {
			t.Errorf("%s: got found %v; want len(found) == %v", query, found, n)
		}
	}
	for _, query := range []string{"?page=0", "?page=x", "?pageSize=201", "?state=Odd", "?metadata=%25zz", "?metadata=%zz", "?metadata=n%3D1;all"} {
		w.is("GET", "/v1/sandboxes"+query, "", 400, "INVALID_PARAMETER")
	}
}

// The same key makes one sandbox, also after the service has ended.
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	create := func(body string) (int, string) {
		status, text := w.call("POST", "/v1/sandboxes", body, "Idempotency-Key", "k")
		var s sandbox
		_ = json.Unmarshal([]byte(text), &s)
		return status, s.ID
	}
	const body = `{"image":{"uri":"host"},"metadata":{"a":"b"}}`
	ids := make(chan string, 4)
	for range cap(ids) {
		go func() {
			_, id := create(body)
			ids <- id
		}()
	}
	id := <-ids
	for range cap(ids) - 1 {
		if other := <-ids; other != id || id == "" {
			t.Errorf("sandboxes %q and %q", id, other)
		}
	}
	w.Restart()
	if status, again := create(body); status != 202 || again != id {
		t.Errorf("after a restart: %d %q", status, again)
	}
	if status, _ := create(`{"image":{"uri":"host"}}`); status != 409 {
		t.Errorf("with another request: %d", status)
	}
	w.is("DELETE", "/v1/sandboxes/"+id, "", 204, "")
	if status, again := create(`{"image":{"uri":"host"}}`); status != 202 || again == id {
		t.Errorf("after it was deleted: %d %q", status, again)
	}
}

// A sandbox whose end could not be recorded, as on a full disk, is listed as created. The same key starts
// it, with what was changed in it.
func TestIdempotencyKeyKeepsChanges(t *testing.T) {
	w := newWorld(t)
	const body = `{"image":{"uri":"host"},"cow":true,"entrypoint":["sh","-c","echo begun >>/workspace/began; sleep 1000"]}`
	made := w.is("POST", "/v1/sandboxes", body, 202, `"state":"Running"`, "Idempotency-Key", "k")
	var s sandbox
	w.OK(json.Unmarshal([]byte(made), &s))
	command := "/sandboxes/" + s.ID + "/port/44772/command"
	w.is("POST", command, `{"command":"echo precious >/workspace/work; until grep begun /workspace/began; do sleep 0.01; done"}`, 200, "begun")
	inTheWay := filepath.Join(w.State, "sandboxes", s.ID, "run", "status.json.new")
	w.OK(os.Mkdir(inTheWay, 0o700))
	_, _ = w.call("POST", "/v1/sandboxes/"+s.ID+"/pause", "")
	w.OK(os.Remove(inTheWay))
	box, err := w.Service.Get(w.Ctx, service.Caller{All: true}, s.ID)
	w.OK(err)
	if box.State != runtime.StateCreated {
		t.Fatalf("its end was recorded: %s", box.State)
	}
	if again := w.is("POST", "/v1/sandboxes", body, 202, `"state":"Running"`, "Idempotency-Key", "k"); !strings.Contains(again, s.ID) {
		t.Fatalf("another one: %s", again)
	}
	w.is("POST", command, `{"command":"cat /workspace/work; until [ $(wc -l </workspace/began) = 2 ]; do sleep 0.01; done; echo twice"}`, 200, "precious")
}

const keyAll, keyZoe, keyYan = "all-0123456789abcdef", "zoe-0123456789abcdef", "yan-0123456789abcdef"

// A key of an owner sees that owner's sandboxes only, whatever it asks.
func TestOwners(t *testing.T) {
	w := &world{servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n"+keyYan+" acme/web/yan\n")}
	as := func(key string) []string { return []string{"OPEN-SANDBOX-API-KEY", key} }
	var s sandbox
	w.OK(json.Unmarshal([]byte(w.is("POST", "/v1/sandboxes", `{"image":{"uri":"host"}}`, 202, "", as(keyZoe)...)), &s))
	path, execd := "/v1/sandboxes/"+s.ID, "/sandboxes/"+s.ID+"/port/44772"
	for key, status := range map[string]int{keyAll: 200, keyZoe: 200, keyYan: 404, "wrong-0123456789abcdef": 401} {
		w.is("GET", path, "", status, "", as(key)...)
		w.is("GET", path+"/endpoints/44772", "", status, "", as(key)...)
		w.is("GET", execd+"/files/info?path=/tmp", "", status, "", as(key)...)
		if _, text := w.call("GET", "/v1/sandboxes", "", as(key)...); strings.Contains(text, s.ID) != (status == 200) {
			t.Errorf("the list of %s: %s", key, text)
		}
	}
	// A command that goes on without its client, a terminal and a session are the sandbox's.
	live, _ := w.streamAs(keyZoe, execd+"/command", `{"resumeWithin":60000,"command":"echo begun; sleep 1000"}`)
	command := live.until("init").Text
	live.until("stdout")
	live.leave()
	names := map[string]string{"id": s.ID, "command": command, "session": "s1", "port": "80", "rest": "x", "kind": "logs", "part": "resume"}
	for _, c := range documented(w, as(keyZoe)) {
		if !strings.Contains(c[1], "{id}") {
			continue // of no sandbox
		}
		at := c[1]
		for name, value := range names {
			at = strings.ReplaceAll(at, "{"+name+"}", value)
		}
		body := ""
		switch method, last := c[0], c[1][strings.LastIndexByte(c[1], '/')+1:]; {
		case last == "metadata":
			body = "{}"
		case last == "renew-expiration":
			body = `{"expiresAt":"2100-01-01T00:00:00Z"}`
		case last == "policy" && method != "GET":
			body = "[]"
		}
		theirs := w.is(c[0], at, body, 404, "SANDBOX_NOT_FOUND", as(keyYan)...)
		none := w.is(c[0], strings.ReplaceAll(at, s.ID, "aaaaaaaaaaaa"), body, 404, "SANDBOX_NOT_FOUND", as(keyYan)...)
		if strings.ReplaceAll(theirs, s.ID, "aaaaaaaaaaaa") != none {
			t.Errorf("%s %s tells that the sandbox exists: %s, not %s", c[0], at, theirs, none)
		}
		w.is(c[0], at, body, 401, "MISSING_API_KEY")
	}
	for _, c := range [][2]string{
		{"GET", execd + "/command/" + command + "/resume"},
		{"DELETE", execd + "/command?id=" + command},
		{"GET", "/sandboxes/" + s.ID + "/port/80/"},
		{"POST", execd + "/proxy/80/x"},
	} {
		w.is(c[0], c[1], "", 404, "SANDBOX_NOT_FOUND", as(keyYan)...)
		w.is(c[0], c[1], "", 401, "MISSING_API_KEY")
	}
	w.is("GET", execd+"/command/status/"+command, "", 200, `"running":true`, as(keyZoe)...) // yan has not interrupted it
	w.is("DELETE", execd+"/command?id="+command, "", 200, "", as(keyZoe)...)
	// So do the service's own calls, with sandboxes of both kinds.
	var own struct{ SandboxID string }
	_, text := w.native("ensureSandbox", `{"organizationId":"acme","projectId":"web","userId":"zoe"}`, as(keyZoe)...)
	w.OK(json.Unmarshal([]byte(text), &own))
	for _, id := range []string{s.ID, own.SandboxID, "aaaaaaaaaaaa"} {
		for _, name := range []string{"executeBash", "streamBash", "destroySandbox", "listJobs"} {
			body := fmt.Sprintf(`{"organizationId":"acme","projectId":"web","userId":"yan","sandboxId":%q,"command":"true"}`, id)
			if name == "destroySandbox" || name == "listJobs" {
				body = strings.Replace(body, `,"command":"true"`, "", 1)
			}
			if status, text := w.native(name, body, as(keyYan)...); status != 404 || !strings.Contains(text, fmt.Sprintf(`"no sandbox \"%s\""`, id)) {
				t.Errorf("%s in %s: %d %s", name, id, status, text)
			}
		}
	}
	if status, text := w.native("destroySandbox", fmt.Sprintf(`{"organizationId":"acme","projectId":"web","userId":"zoe","sandboxId":%q}`, own.SandboxID), as(keyZoe)...); status != 200 {
		t.Errorf(`native "destroySandbox": got status %d, text %s; want status == 200`, status, text)
	}
	// An idempotency key is its owner's.
	w.is("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"metadata":{"of":"zoe"}}`, 202, "", append(as(keyZoe), "Idempotency-Key", "k")...)
	if _, text := w.call("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"metadata":{"of":"zoe"}}`, append(as(keyYan), "Idempotency-Key", "k")...); !strings.Contains(text, `"state":"Running"`) {
		t.Errorf("the idempotency key of another owner: %s", text)
	}
	if _, text := w.call("GET", "/v1/sandboxes", "", as(keyYan)...); strings.Count(text, `"of":"zoe"`) != 1 || strings.Contains(text, s.ID) {
		t.Errorf("yan's list: %s", text)
	}
	for _, path := range []string{"/v1/openapi.json", "/api/v1/openapi.json", "/metrics"} {
		w.is("GET", path, "", 401, "MISSING_API_KEY")
	}
	w.is("GET", "/metrics", "", 403, "DENIED", as(keyYan)...)
	w.is("GET", path, "", 401, "MISSING_API_KEY")
	w.is("GET", execd+"/ping", "", 401, "MISSING_API_KEY")
	w.is("GET", "/health", "", 200, "healthy")
	// The calls of the service, too: the owner in a request must be that of the key.
	var status int
	status, text = w.native("ensureSandbox", `{"organizationId":"acme","projectId":"web","userId":"zoe"}`, as(keyYan)...)
	if status != 403 || !strings.Contains(text, "another owner") {
		t.Errorf("another owner's key: %d %s", status, text)
	}
	_, _, document := w.Do("GET", "/api/v1/openapi.json", nil, as(keyYan)...)
	var calls struct {
		Paths map[string]struct {
			Post struct {
				Body struct {
					Content map[string]struct {
						Schema struct{ Properties map[string]any }
					}
				} `json:"requestBody"`
			}
		}
	}
	w.OK(json.Unmarshal([]byte(document), &calls))
	owned := 0
	for path, c := range calls.Paths {
		if c.Post.Body.Content["application/json"].Schema.Properties["userId"] == nil {
			continue
		}
		owned++
		body := `{"organizationId":"acme","projectId":"web","userId":"zoe"}`
		if status, text := w.native(strings.TrimPrefix(path, "/api/v1/"), body, as(keyYan)...); status != 403 || !strings.Contains(text, "another owner") {
			t.Errorf("%s with another owner's key: %d %s", path, status, text)
		}
	}
	if owned < 15 {
		t.Errorf("%d calls name an owner", owned)
	}
	for _, key := range []string{keyZoe, keyAll} {
		if status, text := w.native("findSandbox", `{"organizationId":"acme","projectId":"web","userId":"zoe"}`, as(key)...); status != 404 {
			t.Errorf("%s: got status %d, text %s; want status == 404", key, status, text)
		}
	}
	if strings.Contains(w.Log.String(), "0123456789abcdef") {
		t.Error("the log has a key")
	}
	if _, err := w.Service.Get(w.Ctx, service.Caller{}, s.ID); err == nil {
		t.Error("the zero caller gets a sandbox")
	}
}

// documented returns the method and the path of each call that the document of the API has.
func documented(w *world, key []string) (calls [][2]string) {
	w.Helper()
	var document struct{ Paths map[string]map[string]any }
	w.OK(json.Unmarshal([]byte(w.is("GET", "/v1/openapi.json", "", 200, "openapi", key...)), &document))
	for path, methods := range document.Paths {
		for method := range methods {
			calls = append(calls, [2]string{strings.ToUpper(method), path})
		}
	}
	if len(calls) < 30 {
		w.Errorf("the document has %d calls", len(calls))
	}
	return calls
}

// A browser that a page has made send a request is refused.
func TestForeignPages(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/sandboxes", "/health", "/metrics", "/mcp", "/v1/openapi.json", "/api/v1/openapi.json", "/sandboxes/x/port/44772/ping"} {
		w.is("GET", path, "", 403, "FOREIGN_HOST", "Host", "evil.example")
		w.is("GET", path, "", 403, "FOREIGN_ORIGIN", "Origin", "http://evil.example")
	}
	// A page can open a WebSocket to any address, with the cookies of that, and no rule of browsers
	// keeps it from reading.
	id, execd := w.create("")
	path := w.createPTY(execd, "")
	for _, origin := range []string{"http://evil.example", "null", "http://localhost:1", "https://" + w.Address, "http://127.0.0.1.evil.example"} {
		for _, path := range []string{path + "/ws?takeover=1", "/sandboxes/" + id + "/port/80/"} {
			conn, res, err := websocket.Dial(w.Ctx, "ws://"+w.Address+path, &websocket.DialOptions{HTTPClient: w.Client, HTTPHeader: http.Header{"Origin": {origin}}})
			if err == nil {
				_ = conn.CloseNow()
				t.Fatalf("a page of %s has a connection to %s", origin, path)
			}
			if res == nil || res.StatusCode != http.StatusForbidden {
				t.Errorf("a page of %s, %s: %v, %v", origin, path, res, err)
			}
		}
	}
	w.is("GET", path, "", 200, `"running":false`) // none has attached
	if status, text := w.native("scanRunningSandboxes", "{}", "Host", "evil.example"); status != 403 {
		t.Errorf("a call of the service: %d %s", status, text)
	}
	w.is("GET", "/v1/sandboxes", "", 200, "items", "Host", "localhost:1")
}

// The sandbox that the service's own calls give an owner is one of the owner's here too. When it is deleted here, the
// owner can have another there.
func TestOwnSandbox(t *testing.T) {
	w := &world{servetest.New(t, keyZoe+" acme/web/zoe\n"+keyYan+" acme/web/yan\n")}
	as := func(key string) []string { return []string{"OPEN-SANDBOX-API-KEY", key} }
	const zoe = `{"organizationId":"acme","projectId":"web","userId":"zoe"}`
	ensure := func() (id string) {
		t.Helper()
		var m struct{ SandboxID string }
		_, text := w.native("ensureSandbox", zoe, as(keyZoe)...)
		w.OK(json.Unmarshal([]byte(text), &m))
		return m.SandboxID
	}
	id := ensure()
	w.is("GET", "/v1/sandboxes", "", 200, id, as(keyZoe)...)
	if _, text := w.call("GET", "/v1/sandboxes", "", as(keyYan)...); strings.Contains(text, id) {
		t.Errorf("another owner's list: %s", text)
	}
	w.is("DELETE", "/v1/sandboxes/"+id, "", 404, "SANDBOX_NOT_FOUND", as(keyYan)...)
	w.is("GET", "/sandboxes/"+id+"/port/44772/files/info?path=/tmp", "", 200, "", as(keyZoe)...)
	w.is("DELETE", "/v1/sandboxes/"+id, "", 204, "", as(keyZoe)...)
	if status, text := w.native("findSandbox", zoe, as(keyZoe)...); status != 404 {
		t.Errorf("after the end: %d %s", status, text)
	}
	if next := ensure(); next == id || next == "" {
		t.Errorf("another one: %q", next)
	}
}
