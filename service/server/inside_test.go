package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/service"
)

// A native is a service with a sandbox of zoe, and what calls about it answer.
type native struct {
	*servetest.World
	id string
}

// answer is what calls about a sandbox answer.
type answer struct {
	Error *struct{ Code, Message string }

	SandboxID string
	Job       job
	Jobs      []job
	Stdout    struct {
		Text            string
		Bytes           []byte
		From, Next, End uint64
	}
	Denied []struct {
		Op, Path, Level, Rule string
	}
	Before             int
	Rules              []struct{ Rule string }
	MountPoint, Filter string
	Path               struct {
		Path, Level, Allow string
		Rule               *struct{ Rule string }
	}
	Encoding, Content string
	Offset, Size      int64
	Updated           int
	ExitCode          *int
}

type job struct {
	ID, Name, State, Command string
	ExitCode                 *int
}

func newNative(t *testing.T, adjust ...func(*service.Options)) *native {
	t.Helper()
	n := &native{World: servetest.New(t, "", adjust...)}
	n.id = n.ok("createSandbox", nil).SandboxID
	return n
}

// call makes a call of zoe's.
func (n *native) call(name string, more m) (int, *answer, string) {
	n.Helper()
	if n.id != "" {
		more = by(zoe, more)
		if more["sandboxId"] == nil {
			more["sandboxId"] = n.id
		}
	} else {
		more = by(zoe, more)
	}
	text, err := json.Marshal(more)
	n.OK(err)
	status, _, body := n.Do(http.MethodPost, "/api/v1/"+name, strings.NewReader(string(text)), "Content-Type", "application/json")
	a := &answer{}
	if name != "executeBash" && name != "runCommand" && !strings.HasPrefix(body, "event:") {
		n.OK(json.Unmarshal([]byte(body), a))
	}
	return status, a, body
}

func (n *native) ok(name string, more m) *answer {
	n.Helper()
	status, a, body := n.call(name, more)
	if status >= 300 {
		n.Fatalf("%s %v: got status %d, body %s; want status < 300", name, more, status, body)
	}
	return a
}

// fails makes a call that must fail.
func (n *native) fails(name string, more m, status int, part string) {
	n.Helper()
	if got, _, body := n.call(name, more); got != status || !strings.Contains(body, part) {
		n.Errorf("%s %v: %d %s, want %d %s", name, more, got, body, status, part)
	}
}

func TestJobs(t *testing.T) {
	n := newNative(t)
	if all := n.ok("listJobs", nil); len(all.Jobs) != 0 {
		t.Errorf("a new sandbox has jobs: %+v", all)
	}
	n.ok("executeBash", m{"command": "cd /tmp; A=state"})
	n.OK(syscall.Mkfifo(filepath.Join(n.Codebase, "gate"), 0o666))
	n.OK(os.Chmod(filepath.Join(n.Codebase, "gate"), 0o666))
	started := n.ok("startJob", m{"name": "build", "command": `echo $A $PWD $B; echo err >&2; read x < /workspace/gate; printf '\377'; exit 3`, "env": m{"B": "env"}})
	if started.Job.Name != "build" || started.Job.ID == "" {
		t.Errorf(`ok "startJob": got started %+v; want started.Job.Name == "build" and started.Job.ID != ""`, started)
	}
	if j := n.ok("waitJob", m{"job": "build", "timeoutMs": 1}).Job; j.State != "running" || j.ExitCode != nil {
		t.Errorf("it waits at the gate: %+v", j)
	}
	n.ok("executeBash", m{"command": "echo > /workspace/gate"})
	if j := n.ok("waitJob", m{"job": started.Job.ID, "timeoutMs": limitMS}).Job; j.State != "ended" || j.ExitCode == nil || *j.ExitCode != 3 {
		t.Errorf(`got j %+v; want j.State == "ended" and j.ExitCode != nil and *j.ExitCode == 3`, j)
	}
	out := n.ok("jobOutput", m{"job": "build"}).Stdout
	if string(out.Bytes) != "state /tmp env\n\xff" || out.From != 0 || out.Next != 16 || out.End != 16 {
		t.Errorf("got out %+v; want out.Bytes == %q and out.From == 0 and out.Next == 16 and out.End == 16", out, "state /tmp env\n\xff")
	}
	if out = n.ok("jobOutput", m{"job": "build", "stdoutOffset": 6, "maxBytes": 4}).Stdout; out.Text != "/tmp" || out.From != 6 || out.Next != 10 || out.End != 16 {
		t.Errorf(`got out %+v; want out.Text == "/tmp" and out.From == 6 and out.Next == 10 and out.End == 16`, out)
	}
	n.ok("startJob", m{"name": "sleeper", "command": "sleep 1000"})
	n.ok("signalJob", m{"job": "sleeper", "signal": "kill"})
	if j := n.ok("waitJob", m{"job": "sleeper", "timeoutMs": limitMS}).Job; j.ExitCode == nil || *j.ExitCode != 137 {
		t.Errorf("got j %+v; want j.ExitCode != nil and *j.ExitCode == 137", j)
	}
	if all := n.ok("listJobs", nil); len(all.Jobs) != 2 {
		t.Errorf(`ok "listJobs": got all %+v; want len(all.Jobs) == 2`, all)
	}
	n.fails("startJob", m{"command": " "}, 400, "empty")
	n.fails("startJob", m{"command": "env", "env": m{"A=B": "x"}}, 400, `variable \"A=B\": a name has letters`)
	n.fails("waitJob", m{"job": "none"}, 404, "no job")
	n.fails("waitJob", m{"job": "build", "timeoutMs": -1}, 400, "out of range")
	n.fails("signalJob", m{"job": "build", "signal": "NONE"}, 400, "it must be a name")
	n.fails("jobOutput", m{"job": "build", "maxBytes": -1}, 400, "it must be from 1")
	for _, name := range []string{"startJob", "listJobs", "jobOutput", "waitJob", "signalJob", "audit", "rules", "streamBash"} {
		n.fails(name, m{"sandboxId": "aaaaaaaaaaaa"}, 404, "no sandbox")
		n.fails(name, m{"userId": yan.UserID}, 404, "no sandbox")
	}
}

// limitMS is a guard against a hang, in ms.
const limitMS = 60_000

// Output of a command comes while it runs, and a client that goes away interrupts it.
func TestStream(t *testing.T) {
	n := newNative(t)
	n.OK(syscall.Mkfifo(filepath.Join(n.Codebase, "gate"), 0o666))
	n.OK(os.Chmod(filepath.Join(n.Codebase, "gate"), 0o666))
	open := func(command string, timeout int) *http.Response {
		t.Helper()
		body, err := json.Marshal(by(zoe, m{"sandboxId": n.id, "command": command, "timeoutMs": timeout}))
		n.OK(err)
		req, err := http.NewRequestWithContext(n.Ctx, http.MethodPost, "http://"+n.Address+"/api/v1/streamBash", strings.NewReader(string(body)))
		n.OK(err)
		req.Header.Set("Content-Type", "application/json")
		res, err := n.Client.Do(req)
		n.OK(err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	read := func(res *http.Response, upTo string) string {
		t.Helper()
		var all []byte
		for b := make([]byte, 1); !strings.Contains(string(all), upTo); {
			_, err := io.ReadFull(res.Body, b)
			if err != nil {
				t.Fatalf("%q: %v", all, err)
			}
			all = append(all, b[0])
		}
		return string(all)
	}
	res := open(`A=1; cd /tmp; printf 'ä\303'; cat /workspace/gate; printf '\244\377' ; echo e >&2; exit 4`, 0)
	if got := read(res, "\n\n"); got != "event: stdout\ndata: {\"text\":\"ä\"}\n\n" {
		t.Errorf("the first event is %q", got)
	}
	n.ok("startJob", m{"session": "other", "command": "echo x > /workspace/gate"}) // a FIFO is not shared with the host
	rest, err := io.ReadAll(res.Body)
	n.OK(err)
	for _, part := range []string{"event: stderr\ndata: {\"text\":\"e\\n\"}\n\n", "event: result\ndata: {\"exitCode\":4,", ",\"cwd\":\"/tmp\","} {
		if !strings.Contains(string(rest), part) {
			t.Errorf("%q lacks %q", rest, part)
		}
	}
	if res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Request-Id") == "" {
		t.Errorf(`open: got res.Header %v; want res.Header.Get("Content-Type") == "text/event-stream" and res.Header.Get("X-Request-Id") != ""`,
			res.Header)
	}
	late, err := io.ReadAll(open("echo begun; sleep 1000", 50).Body)
	n.OK(err)
	if !strings.Contains(string(late), `"text":"begun\n"`) || !strings.Contains(string(late), "event: error\ndata: {\"error\":{\"code\":\"timedOut\"") ||
		!strings.Contains(string(late), `"result":{"exitCode":124`) {
		t.Errorf("a command that times out: %q", late)
	}
	res = open("echo begun; while :; do sleep 0.01; done", 0)
	read(res, "begun")
	n.OK(res.Body.Close())
	if _, _, body := n.call("executeBash", m{"command": "echo $A", "timeoutMs": limitMS}); !strings.Contains(body, `"stdout":"1\n"`) {
		t.Errorf("after a client that went away: %s", body)
	}
	n.fails("streamBash", m{"command": "true", "timeoutMs": -1}, 400, "out of range")
	// What fails before anything is sent has a status of its own.
	n.fails("streamBash", m{"command": ": " + strings.Repeat("x", 4<<20)}, 400, "command")
	n.fails("streamBash", m{"command": "true", "cwd": "/nowhere"}, 400, "/nowhere")
	silent := open("sleep 1000", 50)
	late, err = io.ReadAll(silent.Body)
	n.OK(err)
	if silent.StatusCode != http.StatusOK || !strings.HasPrefix(string(late), "event: error\ndata: ") || !strings.Contains(string(late), `"result":{"exitCode":124`) {
		t.Errorf("a silent command that times out: %d %q", silent.StatusCode, late)
	}
}

func TestRanges(t *testing.T) {
	n := newNative(t)
	if a := n.ok("writeFiles", m{"files": m{"f": m{"content": "0123456789"}}}); a.Updated != 1 {
		t.Errorf(`ok "writeFiles": got a %+v; want a.Updated == 1`, a)
	}
	n.ok("writeFiles", m{"files": m{"f": m{"content": "AB", "offset": 2}}})
	n.ok("writeFiles", m{"files": m{"f": m{"content": "!", "offset": 10}}})
	for _, c := range []struct {
		more          m
		content       string
		offset, whole int64
	}{
		{m{"offset": 0}, "01AB456789!", 0, 11},
		{m{"offset": 2, "bytes": 2}, "AB", 2, 11},
		{m{"bytes": 3}, "01A", 0, 11},
		{m{"offset": -2}, "9!", 9, 11},
		{m{"offset": 11}, "", 11, 11},
		{m{"offset": 99}, "", 11, 11},
	} {
		c.more["path"] = "f"
		if a := n.ok("readFile", c.more); a.Content != c.content || a.Offset != c.offset || a.Size != c.whole || a.Encoding != "utf-8" {
			t.Errorf(`%v: got a %+v; want a.Content == %v and a.Offset == %v and a.Size == %v and a.Encoding == "utf-8"`,
				c.more, a, c.content, c.offset, c.whole)
		}
	}
	n.fails("readFile", m{"path": "f", "bytes": -1}, 400, "it must be from 0")
	n.fails("readFile", m{"path": "none", "offset": 0}, 404, "no such file")
	n.fails("readFile", m{"path": ".", "offset": 0}, 400, "not the path of a file")
	for _, long := range []string{strings.Repeat("n", 300), strings.Repeat("d/", 3000) + "f"} {
		n.fails("readFile", m{"path": long}, 400, "the name or the path is too long")
		n.fails("readFile", m{"path": long, "offset": 0}, 400, "the name or the path is too long")
		n.fails("writeFiles", m{"files": m{long: m{"content": "x"}}}, 400, "the name or the path is too long")
		n.fails("writeFiles", m{"files": m{long: m{"content": "x", "offset": 0}}}, 400, "invalid")
	}
	n.fails("writeFiles", m{"files": m{"f": m{"content": "x", "offset": 12}}}, 400, "the file has 11 bytes")
	n.fails("writeFiles", m{"files": m{"none": m{"content": "x", "offset": 0}}}, 404, "none")
	n.OK(os.WriteFile(filepath.Join(n.Codebase, "secret"), []byte("password"), 0o644))
	n.fails("readFile", m{"path": "secret", "offset": 0}, 404, "no such file")
	n.fails("writeFiles", m{"files": m{"secret": m{"content": "x", "offset": 0}}}, 404, "secret")
}

func TestRules(t *testing.T) {
	n := newNative(t)
	n.OK(os.WriteFile(filepath.Join(n.Codebase, "secret"), []byte("password"), 0o644))
	n.ok("executeBash", m{"command": "cat secret; cat secret; true"})
	a := n.ok("audit", nil)
	if len(a.Denied) == 0 || a.Denied[0].Path != "secret" || a.Denied[0].Level != "none" || a.Denied[0].Rule != "secret=none" {
		t.Errorf(`ok "audit": got a %+v; want len(a.Denied) != 0 and a.Denied[0].Path == "secret" and a.Denied[0].Level == "none" and a.Denied[0].Rule == "secret=none"`,
			a)
	}
	n.ok("executeBash", m{"command": "ls secret/; true"})
	if b := n.ok("audit", m{"limit": 1}); len(b.Denied) != 1 || b.Before < len(a.Denied)-1 {
		t.Errorf(`ok "audit": got b %+v; want len(b.Denied) == 1 and b.Before >= len(a.Denied)-1`, b)
	}
	n.fails("audit", m{"limit": -1}, 400, "limit")
	a = n.ok("rules", m{"path": "/workspace/secret"})
	if len(a.Rules) != 2 || a.Filter != "fuse" || a.MountPoint != "/workspace" || a.Path.Path != "secret" || a.Path.Level != "none" || a.Path.Allow == "" {
		t.Errorf(`ok "rules": got a %+v; want len(a.Rules) == 2 and a.Filter == "fuse" and a.MountPoint == "/workspace" and a.Path.Path == "secret" and a.Path.Level == "none" and a.Path.Allow != ""`,
			a)
	}
	if a = n.ok("rules", m{"path": "sub/file"}); a.Path.Level != "write" || a.Path.Allow != "" {
		t.Errorf(`ok "rules": got a %+v; want a.Path.Level == "write" and a.Path.Allow == ""`, a)
	}
	for _, name := range []string{"/etc/passwd", "../a", "sub/../../etc/passwd", "/workspace/../a"} {
		n.fails("rules", m{"path": name}, 400, "not in the codebase")
	}
	if _, _, body := n.call("rules", nil); strings.Contains(body, n.Codebase) || strings.Contains(body, `"path"`) {
		t.Errorf("the rules tell a path of the host, or explain none: %s", body)
	}
}

// Of a path that may be a directory or not the stricter answer is told, which is that of explain_denial.
func TestRulesOfUnknownKind(t *testing.T) {
	n := newNative(t, func(o *service.Options) {
		configure := o.Configure
		o.Configure = func(ctx context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
			c, err := configure(ctx, p)
			c.Permissions = append(c.Permissions, perm.Rule{Pattern: "keys", Type: perm.Directory, Level: perm.None, Priority: 10, Source: "--rule"})
			return c, err
		}
	})
	for _, name := range []string{"keys", "keys/", "keys/a"} {
		if a := n.ok("rules", m{"path": name}); a.Path.Level != "none" || a.Path.Rule == nil || a.Path.Allow == "" {
			t.Errorf(`%s: got a.Path %+v; want a.Path.Level == "none" and a.Path.Rule != nil and a.Path.Allow != ""`, name, a.Path)
		}
	}
}

// The document of the calls has all of them, with the fields that they have.
func TestDescription(t *testing.T) {
	n := newNative(t)
	status, _, body := n.Do(http.MethodGet, "/api/v1/openapi.json", nil)
	type schema struct {
		Title      string
		Properties map[string]struct{ Properties map[string]any }
		AnyOf      []struct {
			Title      string
			Properties map[string]any
		}
	}
	type content map[string]struct{ Schema schema }
	var doc struct {
		Paths map[string]struct {
			Post struct {
				RequestBody struct{ Content content }
				Responses   map[string]struct{ Content content }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != http.StatusOK || len(doc.Paths) != 37 {
		t.Fatalf("%d, %v, %d calls", status, err, len(doc.Paths))
	}
	bash := doc.Paths["/api/v1/executeBash"].Post
	request, reply := bash.RequestBody.Content["application/json"].Schema, bash.Responses["2XX"].Content["application/json"].Schema
	for _, name := range []string{"organizationId", "sandboxId", "command", "timeoutMs", "operationId"} {
		if _, has := request.Properties[name]; !has {
			t.Errorf("the request lacks %s", name)
		}
	}
	_, _, text := n.call("executeBash", m{"command": "true"})
	var has map[string]any
	n.OK(json.Unmarshal([]byte(text), &has))
	for name := range has {
		if _, has := reply.Properties[name]; !has {
			t.Errorf("the reply lacks %s", name)
		}
	}
	// An error has what was done before it.
	for name, field := range map[string]string{"executeBash": "stdout", "writeFiles": "updated", "applyChanges": "applied", "readFile": ""} {
		failed := doc.Paths["/api/v1/"+name].Post.Responses["default"].Content["application/json"].Schema.Properties
		if _, has := failed["error"].Properties["requestId"]; !has {
			t.Errorf("an error of %s has no request id", name)
		}
		if _, has := failed["result"].Properties[field]; has != (field != "") {
			t.Errorf("the result beside an error of %s: %v", name, failed["result"])
		}
	}
	events := map[string]string{"stdout, stderr": "text", "result": "exitCode", "error": "result"}
	for _, e := range doc.Paths["/api/v1/streamBash"].Post.Responses["2XX"].Content["text/event-stream"].Schema.AnyOf {
		if _, has := e.Properties[events[e.Title]]; !has {
			t.Errorf("the event %s has no %s", e.Title, events[e.Title])
		}
		delete(events, e.Title)
	}
	if len(events) > 0 {
		t.Errorf("streamBash lacks the events %v", events)
	}
}

// A call replaces all that a sandbox can reach, within what the service permits.
// The network must be filtered.
func TestChangeNetwork(t *testing.T) {
	n := newNative(t, func(o *service.Options) {
		o.MayReach = func(p *service.Params) error {
			if p.Egress != nil && slices.Contains(p.Egress.Allow, "refused.example") {
				return runtime.Errorf(runtime.ErrDenied, "not that")
			}
			return nil
		}
	})
	n.fails("changeNetwork", m{"egress": m{"allow": []string{"a.example"}}}, http.StatusConflict, "which names do not filter")
	n.id = ""
	n.id = n.ok("addSandbox", m{"network": "filtered", "egress": m{"allow": []string{"a.example", "b.example"}}}).SandboxID
	reaches := func() string {
		_, _, body := n.call("rules", nil)
		return body
	}
	n.ok("changeNetwork", m{"egress": m{"allow": []string{"c.example"}}})
	if is := reaches(); !strings.Contains(is, "c.example") || strings.Contains(is, "a.example") {
		t.Errorf("the sandbox reaches %s, want c.example only", is)
	}
	n.fails("changeNetwork", m{"egress": m{"allow": []string{"refused.example"}}}, http.StatusForbidden, "not that")
	n.fails("changeNetwork", m{"egress": m{"allow": []string{"*"}}}, http.StatusBadRequest, "*.DOMAIN")
	if is := reaches(); !strings.Contains(is, "c.example") {
		t.Errorf("after refused changes the sandbox reaches %s, want c.example", is)
	}
	n.ok("changeNetwork", nil)
	if is := reaches(); strings.Contains(is, "c.example") {
		t.Errorf("after an empty change the sandbox reaches %s, want nothing", is)
	}
}
