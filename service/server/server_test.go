package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

func TestCalls(t *testing.T) {
	w := newWorld(t, nil)
	w.OK(os.WriteFile(filepath.Join(w.codebase, "secret"), []byte("hidden"), 0o644))
	w.is("nobody has one", w.call(w.Ctx, "findSandbox", by(zoe, nil)), 404, "notFound")
	r := w.call(w.Ctx, "ensureSandbox", by(zoe, nil))
	w.is("ensure", r, 201, "")
	id := r.SandboxID
	if !runtime.IsID(id) || r.ContainerName != id || !r.Created {
		t.Errorf("ensured %s", r.body)
	}
	r = w.call(w.Ctx, "ensureSandbox", by(zoe, nil))
	if w.is("ensure again", r, 200, ""); r.SandboxID != id || r.Created {
		t.Errorf("ensured again %s", r.body)
	}
	r = w.call(w.Ctx, "createSandbox", by(zoe, nil))
	if w.is("create", r, 409, "conflict"); r.Error.SandboxID != id || r.Error.RequestID == "" || r.header.Get("X-Request-Id") != r.Error.RequestID {
		t.Errorf("the conflict is %s, %v", r.body, r.header)
	}
	r = w.call(w.Ctx, "findSandbox", by(zoe, nil))
	if w.is("find", r, 200, ""); r.SandboxID != id {
		t.Errorf("found %s", r.body)
	}
	in := func(more m) m {
		more["sandboxId"] = id
		return by(zoe, more)
	}
	for _, wrong := range []int64{-1, 1, -1 << 63, 1<<63 - 1} {
		w.is("a time to live that makes no sense", w.call(w.Ctx, "touchSandbox", in(m{"ttlMs": wrong})), 400, "invalid")
	}
	w.is("touch", w.call(w.Ctx, "touchSandbox", in(m{})), 200, "")
	if r = w.call(w.Ctx, "touchSandbox", in(m{"ttlMs": 3600_000})); r.SandboxID != id {
		t.Errorf("touched: %s", r.body)
	}
	if s, err := w.open().Get(w.Ctx, id); err != nil || s.ExpiresAt.IsZero() {
		t.Errorf("with a time to live: %+v, %v", s, err)
	}
	w.is("without a time to live", w.call(w.Ctx, "touchSandbox", in(m{"ttlMs": 0})), 200, "")
	w.is("touch another's", w.call(w.Ctx, "touchSandbox", by(yan, m{"sandboxId": id})), 404, "notFound")
	r = w.call(w.Ctx, "executeBash", in(m{"command": `cd /tmp; A=kept; echo out; echo "<&>" >&2; (exit 7)`}))
	if w.is("bash", r, 200, ""); r.Stdout != "out\n" || r.Stderr != "<&>\n" || r.ExitCode != 7 || r.Cwd != "/tmp" || r.SessionEnded || r.StdoutBytes != nil {
		t.Errorf("bash: %s", r.body)
	}
	r = w.call(w.Ctx, "executeBash", in(m{"command": `printf "$A \377\0"; pwd`, "cwd": "/"}))
	if w.is("bytes", r, 200, ""); r.Stdout != "kept \ufffd\x00/\n" || string(r.StdoutBytes) != "kept \xff\x00/\n" || r.Cwd != "/tmp" {
		t.Errorf("bytes: %s", r.body)
	}
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		r = w.call(w.Ctx, "executeBash", in(m{"command": `echo part; sleep 1000`, "timeoutMs": timeout.Milliseconds()}))
		return r.Result != nil && r.Result.Stdout != ""
	})
	if w.is("time-out", r, 504, "timedOut"); r.Result == nil || r.Result.Stdout != "part\n" || r.Result.ExitCode != 124 || r.Result.Cwd != "/tmp" {
		t.Errorf("time-out: %s", r.body)
	}
	r = w.call(w.Ctx, "executeBash", in(m{"command": `(exit 124)`, "timeoutMs": 60000}))
	if w.is("its own 124", r, 200, ""); r.ExitCode != 124 {
		t.Errorf("its own 124: %s", r.body)
	}
	r = w.call(w.Ctx, "executeBash", in(m{"command": `exit 3`}))
	if w.is("exit", r, 200, ""); r.ExitCode != 3 || !r.SessionEnded {
		t.Errorf("exit: %s", r.body)
	}
	w.is("too long", w.call(w.Ctx, "executeBash", in(m{"command": ": " + strings.Repeat("x", 5<<20)})), 400, "invalid")
	w.is("negative", w.call(w.Ctx, "executeBash", in(m{"command": ":", "timeoutMs": -1})), 400, "invalid")

	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	b64 := base64.StdEncoding.EncodeToString(all)
	r = w.call(w.Ctx, "writeFiles", in(m{"files": m{"a/text": m{"content": "äöü\n"}, "bytes": m{"encoding": "base64", "content": b64}}}))
	if w.is("write", r, 200, ""); r.Updated != 2 {
		t.Errorf("write: %s", r.body)
	}
	if b, err := os.ReadFile(filepath.Join(w.codebase, "bytes")); err != nil || !slices.Equal(b, all) {
		t.Errorf("written %q, %v", b, err)
	}
	r = w.call(w.Ctx, "readFile", in(m{"path": "a/text"}))
	if w.is("read", r, 200, ""); r.Encoding != "utf-8" || r.Content != "äöü\n" {
		t.Errorf("read: %s", r.body)
	}
	r = w.call(w.Ctx, "readFile", in(m{"path": "/workspace/bytes"}))
	if w.is("read bytes", r, 200, ""); r.Encoding != "base64" || r.Content != b64 {
		t.Errorf("read: %s", r.body)
	}
	w.is("hidden", w.call(w.Ctx, "readFile", in(m{"path": "secret"})), 404, "notFound")
	w.is("directory", w.call(w.Ctx, "readFile", in(m{"path": "/"})), 400, "invalid")
	r = w.call(w.Ctx, "writeFiles", in(m{"files": m{"good": m{"content": "x"}, "secret": m{"content": "x"}}}))
	if w.is("half", r, 403, "denied"); r.Result == nil || r.Result.Updated != 1 {
		t.Errorf("half: %s", r.body)
	}
	w.is("encoding", w.call(w.Ctx, "writeFiles", in(m{"files": m{"x": m{"encoding": "rot13"}}})), 400, "invalid")

	other := w.box(yan)
	r = w.call(w.Ctx, "scanRunningSandboxes", nil)
	if w.is("scan", r, 400, "invalid"); r.Sandboxes != nil {
		t.Errorf("scan of null: %s", r.body)
	}
	r = w.call(w.Ctx, "scanRunningSandboxes", m{})
	if w.is("scan", r, 200, ""); len(r.Sandboxes) != 2 || r.Sandboxes[0].SandboxID != id || r.Sandboxes[0].Owner != zoe || r.Sandboxes[1].SandboxID != other {
		t.Errorf("scan: %s", r.body)
	}
	r = w.call(w.Ctx, "destroySandbox", in(m{}))
	if w.is("destroy", r, 200, ""); r.SandboxID != id || !r.Destroyed {
		t.Errorf("destroy: %s", r.body)
	}
	w.is("destroy again", w.call(w.Ctx, "destroySandbox", in(m{})), 404, "notFound")
	w.is("bash in it", w.call(w.Ctx, "executeBash", in(m{"command": ":"})), 404, "notFound")
}

// What a stranger is told of a sandbox says nothing of its owner, and is the same
// for every call.
func TestStrangers(t *testing.T) {
	w := newWorld(t, nil)
	id := w.box(yan)
	for name, more := range map[string]m{
		"destroySandbox": {}, "executeBash": {"command": "touch /workspace/was-here"},
		"readFile": {"path": "x"}, "writeFiles": {"files": m{"was-here": m{"content": "x"}}},
	} {
		more["sandboxId"] = id
		r := w.call(w.Ctx, name, by(zoe, more))
		w.is(name, r, 404, "notFound")
		for _, tells := range []string{yan.OrganizationID, yan.ProjectID, yan.UserID, w.dir} {
			if strings.Contains(r.body, tells) {
				t.Errorf("%s tells %q: %s", name, tells, r.body)
			}
		}
		more["sandboxId"] = "abcabcabcabc"
		none := w.call(w.Ctx, name, by(zoe, more))
		w.is(name+" of none", none, 404, "notFound")
		if strings.ReplaceAll(r.Error.Message, id, "ID") != strings.ReplaceAll(none.Error.Message, "abcabcabcabc", "ID") {
			t.Errorf("%s tells that the sandbox exists: %s, not %s", name, r.body, none.body)
		}
		w.is(name+" of half an owner", w.call(w.Ctx, name, by(registry.Owner{OrganizationID: "acme"}, more)), 400, "invalid")
	}
	if left, err := os.ReadDir(w.codebase); err != nil || len(left) > 0 {
		t.Errorf("something was done: %v, %v", left, err)
	}
	w.bash(yan, id, ":")
}

// TestTwoOwners: a request that names two owners, of which parsers take different
// ones, is nobody's: a front end that has checked one would let it do the other's.
func TestTwoOwners(t *testing.T) {
	w := newWorld(t, nil)
	id := w.box(yan)
	mine := fmt.Sprintf(`"organizationId":%q,"projectId":%q,"userId":%q`, zoe.OrganizationID, zoe.ProjectID, zoe.UserID)
	theirs := fmt.Sprintf(`%q,"projectId":%q,"userId":%q`, yan.OrganizationID, yan.ProjectID, yan.UserID)
	command := fmt.Sprintf(`"sandboxId":%q,"command":"touch was-here"`, id)
	for _, body := range []string{
		"{" + mine + `,"OrganizationId":` + strings.NewReplacer("projectId", "ProjectId", "userId", "UserId").Replace(theirs) + "," + command + "}",
		"{" + mine + `,"organizationId":` + theirs + "," + command + "}",
		"{" + mine + `,"organization\u0049d":` + strings.NewReplacer("projectId", `project\u0049d`, "userId", `\u0075serId`).Replace(theirs) + "," + command + "}",
		`{"ORGANIZATIONID":` + strings.NewReplacer("projectId", "PROJECTID", "userId", "USERID").Replace(theirs) + "," + command + "}",
		"{" + mine + "," + command + `}{"organizationId":` + theirs + "}",
	} {
		w.is(body, w.post(w.Ctx, "executeBash", body, nil), 400, "invalid")
	}
	if left, err := os.ReadDir(w.codebase); err != nil || len(left) > 0 {
		t.Errorf("something was done: %v, %v", left, err)
	}
}

func TestFiftyCreateOverHTTP(t *testing.T) {
	w := newWorld(t, nil)
	replies := make([]*reply, 50)
	suite.AtOnce(len(replies), func(i int) error {
		replies[i] = w.call(w.Ctx, "createSandbox", by(zoe, nil))
		return nil
	})
	n := map[int]int{}
	ids := map[string]bool{}
	for _, r := range replies {
		n[r.status]++
		if r.Error != nil {
			ids[r.Error.SandboxID] = true
		} else {
			ids[r.SandboxID] = true
		}
	}
	if n[201] != 1 || n[409] != 49 || len(ids) != 1 {
		t.Errorf("statuses %v, sandboxes %v", n, ids)
	}
}

// A hundred owners at once do not hold one another up, nor get another's output.
func TestHundredOwnersAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	const owners = 100
	ids := make([]string, owners)
	suite.AtOnce(owners, func(i int) error {
		r := w.call(w.Ctx, "createSandbox", by(owner(i), nil))
		if ids[i] = r.SandboxID; r.status != 201 {
			t.Errorf("%d: got r.body %s, r.err %v; want r.status == 201", i, r.body, r.err)
		}
		return nil
	})
	if t.Failed() {
		return
	}
	w.T = suite.New(t)
	// Each waits until all have begun: none is run after another.
	fifos := filepath.Join(w.codebase, "begun")
	w.OK(os.Mkdir(fifos, 0o777))
	w.OK(os.Chmod(fifos, 0o777))
	suite.AtOnce(owners, func(i int) error {
		command := fmt.Sprintf(`A=%d; : > /workspace/begun/$A
until set -- /workspace/begun/*; [ $# -eq %d ]; do sleep 1; done; echo $A`, i, owners)
		r := w.call(w.Ctx, "executeBash", by(owner(i), m{"sandboxId": ids[i], "command": command}))
		if r.status != 200 || r.Stdout != fmt.Sprintf("%d\n", i) {
			t.Errorf(`call "executeBash": got i %d, r.body %s, r.err %v; want r.status == 200 and r.Stdout == fmt.Sprintf(%q, i)`,
				i, r.body, r.err, "%d\n")
		}
		return nil
	})
}

// A client that goes away takes its command with it, and nothing else.
func TestClientGoesAway(t *testing.T) {
	w := newWorld(t, nil)
	id := w.box(zoe)
	shell := w.bash(zoe, id, "cd /tmp; A=kept; mkfifo go; echo $$")
	ctx, cancel := context.WithCancel(w.Ctx)
	gone := make(chan *reply, 1)
	go func() { // ends with ctx
		gone <- w.call(ctx, "executeBash", by(zoe, m{"sandboxId": id, "command": "B=too; : > /workspace/begun; sleep 1000; : > /workspace/went-on"}))
	}()
	w.Until("it has begun", func() bool {
		_, err := os.Stat(filepath.Join(w.codebase, "begun"))
		return err == nil
	})
	cancel()
	if r := <-gone; r.err == nil {
		t.Errorf("there was an answer: %s", r.body)
	}
	if got := w.bash(zoe, id, "echo $$; echo $A $B; pwd; while pgrep -x sleep >/dev/null; do :; done; echo none; ls /workspace"); got != shell+"kept too\n/tmp\nnone\nbegun\n" {
		t.Errorf("afterwards: %q", got)
	}
	w.Until("the log says so", func() bool { return strings.Contains(w.log.String(), `"status":499`) })
}

// Nothing that somebody means to keep is in the log, and what is there makes sense
// of a request.
func TestLog(t *testing.T) {
	w := newWorld(t, nil)
	const hidden = "TOP-SECRET"
	r := w.call(w.Ctx, "createSandbox", by(zoe, m{"gitConfig": m{
		"username": "zoe", "email": "zoe@example.invalid", "token": hidden, "url": "https://example.invalid",
	}}))
	w.is("create", r, 201, "")
	id := r.SandboxID
	in := func(more m) m {
		more["sandboxId"] = id
		return by(zoe, more)
	}
	res := w.post(w.Ctx, "executeBash", fmt.Sprintf(`{"organizationId":%q,"projectId":%q,"userId":%q,"sandboxId":%q,"command":"echo %s"}`,
		zoe.OrganizationID, zoe.ProjectID, zoe.UserID, id, hidden), http.Header{"X-Request-Id": {"mine-1"}})
	if w.is("bash", res, 200, ""); res.header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("the request's id is %v", res.header)
	}
	w.is("write", w.call(w.Ctx, "writeFiles", in(m{"files": m{"f": m{"content": hidden}}})), 200, "")
	w.is("read", w.call(w.Ctx, "readFile", in(m{"path": "f"})), 200, "")
	w.is("bad git", w.call(w.Ctx, "ensureSandbox", by(zoe, m{"gitConfig": m{"username": "a", "email": hidden + "\n", "token": hidden}})), 400, "invalid")
	w.is("bad field", w.call(w.Ctx, "executeBash", in(m{"comand": hidden})), 400, "invalid")
	w.is("bad owner", w.call(w.Ctx, "findSandbox", by(registry.Owner{OrganizationID: hidden + "\n"}, nil)), 400, "invalid")
	w.is("bad call", w.post(w.Ctx, hidden, "{}", nil), 404, "noSuchCall")
	w.is("bad id", w.post(w.Ctx, "findSandbox", "{}", http.Header{"X-Request-Id": {hidden + "!"}}), 400, "invalid")
	w.Until("all is in the log", func() bool { return strings.Count(w.log.String(), `"msg":"request"`) == 9 })
	log := w.log.String()
	if strings.Contains(log, hidden) || strings.Contains(log, base64.StdEncoding.EncodeToString([]byte(hidden))) {
		t.Errorf("the log tells: %s", log)
	}
	for _, want := range []string{
		`"requestId":"mine-1","method":"POST","call":"executeBash","status":200,`,
		`"organizationId":"acme","projectId":"web shop","userId":"zoë","sandboxId":"` + id + `"`,
		`"call":"","status":404,`, `"code":"noSuchCall"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
}

// A panicking runtime is a mistake of ours.
type panicking struct{ service.Runtime }

func (panicking) List(context.Context) ([]*runtime.Sandbox, error) { return nil, nil }

func (panicking) DiskUsage(context.Context, string) (int64, bool, error) { return 0, true, nil }

func (panicking) Lost(context.Context) ([]*runtime.Sandbox, error) { return nil, nil }

func (panicking) Create(context.Context, *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	panic("what only the log may tell")
}

func (panicking) Destroy(context.Context, string) error { return nil }

func TestPanic(t *testing.T) {
	w := &world{T: suite.New(t), dir: t.TempDir()}
	w.state = filepath.Join(w.dir, "state")
	w.OK(os.Mkdir(w.state, 0o700))
	w.serve(panicking{}, &service.Options{}, nil)
	r := w.call(w.Ctx, "createSandbox", by(zoe, nil))
	w.is("a panic", r, 500, "internal")
	w.Until("the request is in the log", func() bool { return strings.Contains(w.log.String(), r.Error.RequestID) })
	if strings.Contains(r.body, "only the log") || !strings.Contains(w.log.String(), "what only the log may tell") {
		t.Errorf("told %s; logged %s", r.body, w.log.String())
	}
	// It goes on, and the owner's lock is not left taken.
	w.is("after it", w.call(w.Ctx, "createSandbox", by(zoe, nil)), 500, "internal")
	w.is("after it", w.call(w.Ctx, "findSandbox", by(yan, nil)), 404, "notFound")
}
