package envd_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/service/e2b/envd"
)

const start = "process.Process/Start"

func TestRun(t *testing.T) {
	w := newWorld(t)
	r := w.run(`echo out; echo err >&2; echo $FROM_BOX $E2B_SANDBOX $E2B_TEMPLATE_ID; pwd; whoami; exit 3`)
	if r.out != "out\n1 true base\n/home/user\nuser\n" || r.errs != "err\n" || r.code != 3 || r.status != "exit status 3" || r.failed != r.status || r.closing != "ok" {
		t.Errorf("%+v", r)
	}
	if r := w.run("true"); !r.ended || r.code != 0 || r.failed != "" || r.status != "exit status 0" {
		t.Errorf("%+v", r)
	}
	if r := w.run("kill -9 $$"); r.code != -1 || r.status != "signal: killed" || r.failed == "" {
		t.Errorf("%+v", r)
	}
	s := w.stream(start, m{"process": m{"cmd": "sh", "args": []string{"-c", "echo $$ $A $FROM_BOX; cat; until [ -e /home/user/go ]; do sleep 0.01; done"}, "envs": m{"A": "a", "FROM_BOX": "2"}, "cwd": "/tmp"}, "new": 1})
	pid := s.pid()
	s.until(fmt.Sprintf("%d a 2\n", pid)) // the process id is that inside
	if r := w.rpc("process.Process/List", m{}, 200); len(r["processes"].([]any)) != 1 {
		t.Errorf("list: %v", r)
	}
	w.rpc("process.Process/CloseStdin", of(pid), 200)
	w.rpc("process.Process/CloseStdin", of(pid), 200)
	w.fails("process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": "eA=="}}, 500, "internal")
	w.run("touch go")
	if r := s.rest(); r.code != 0 || r.closing != "ok" {
		t.Errorf("%+v", r)
	}
	if r := w.rpc("process.Process/List", m{}, 200); len(r["processes"].([]any)) != 0 {
		t.Errorf("list: %v", r)
	}
	big := w.run("head -c 3000000 /dev/zero | tr '\\0' x; printf 'ä%.0s' $(seq 50000) >&2")
	if len(big.out) != 3_000_000 || big.errs != strings.Repeat("ä", 50_000) {
		t.Errorf("%d and %d bytes", len(big.out), len(big.errs))
	}
}

func TestStartErrors(t *testing.T) {
	w := newWorld(t)
	user := func(name string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":")) }
	bad := func(cwd string) m { return m{"process": m{"cmd": "true", "cwd": cwd}} }
	for _, c := range []struct {
		q       m
		headers []string
		code    string
	}{
		{bad("/none"), nil, "invalid_argument"},
		{bad("~nobody/x"), nil, "invalid_argument"},
		{m{"process": m{"cmd": "no-such-program"}}, nil, "invalid_argument"},
		{m{"process": m{"cmd": ""}}, nil, "invalid_argument"},
		{m{"process": m{"cmd": "true", "envs": m{"A=B": "x"}}}, nil, "invalid_argument"},
		{bash("true"), []string{"Authorization", user("root")}, "unauthenticated"},
		{bash("true"), []string{"Authorization", user("nobody-such")}, "unauthenticated"},
		{bash("true"), []string{"Connect-Timeout-Ms", "x"}, "invalid_argument"},
	} {
		if r := w.stream(start, c.q, c.headers...).rest(); r.closing != c.code {
			t.Errorf("%v %v: %+v, want %s", c.q, c.headers, r, c.code)
		}
	}
	if r := w.run("whoami", "Authorization", user("user")); r.out != "user\n" {
		t.Errorf("%+v", r)
	}
	for _, method := range []string{"SendInput", "CloseStdin", "SendSignal", "Update"} {
		q := m{"process": m{"pid": 999999}, "input": m{"stdin": ""}, "signal": "SIGNAL_SIGKILL", "pty": m{"size": m{"cols": 1, "rows": 1}}}
		w.fails("process.Process/"+method, q, 404, "not_found")
	}
	w.fails("process.Process/SendSignal", m{}, 400, "invalid_argument")
	if r := w.stream("process.Process/Connect", of(999999)).rest(); r.closing != "not_found" {
		t.Errorf("connect: %+v", r)
	}
	if status, text := w.do(http.MethodPost, "/process.Process/List", "{", "Content-Type", "application/json"); status != 400 || !strings.Contains(text, "invalid_argument") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := w.do(http.MethodPost, "/process.Process/List", "{}", "Content-Type", "application/json", "X-Access-Token", "x"); status != 401 {
		t.Errorf("a wrong token: %d", status)
	}
	if status, _ := w.do(http.MethodPost, "/process.Process/None", "{}"); status != 404 {
		t.Errorf("an unknown method: %d", status)
	}
}

func TestInput(t *testing.T) {
	w := newWorld(t)
	s := w.stream(start, m{"process": m{"cmd": "cat"}, "tag": "the cat"})
	pid := s.pid()
	type2 := func(q m, text string) m {
		q["input"] = m{"stdin": base64.StdEncoding.EncodeToString([]byte(text))}
		return q
	}
	w.rpc("process.Process/SendInput", type2(of(pid), "hello"), 200)
	s.until("hello")
	w.rpc("process.Process/SendInput", type2(m{"process": m{"tag": "the cat"}}, ""), 200)
	w.rpc("process.Process/SendInput", type2(m{"process": m{"pid": fmt.Sprint(pid)}}, "\x00\xff more"), 200)
	s.until("more")
	w.fails("process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"pty": "eA=="}}, 500, "internal")
	w.fails("process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{}}, 501, "unimplemented")
	w.fails("process.Process/Update", m{"process": m{"pid": pid}, "pty": m{"size": m{"cols": 1, "rows": 1}}}, 500, "internal")

	frames := append(w.frame(m{"start": of(pid)}), w.frame(m{"keepalive": m{}})...)
	frames = append(frames, w.frame(m{"data": m{"input": m{"stdin": "c3RyZWFt"}}})...)
	r := w.send(http.MethodPost, "/process.Process/StreamInput", bytes.NewReader(frames), "Content-Type", "application/connect+json")
	w.OK(r.Body.Close())
	s.until("stream")

	w.rpc("process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": 15}, 200)
	if r := s.rest(); r.status != "signal: terminated" || r.code != -1 {
		t.Errorf("%+v", r)
	}
	w.fails("process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found")
	s = w.stream(start, bash("sleep 600"))
	pid = s.pid()
	w.fails("process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_UNSPECIFIED"}, 501, "unimplemented")
	w.fails("process.Process/SendInput", type2(of(pid), "x"), 500, "internal") // it has none
	w.rpc("process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_SIGKILL"}, 200)
	if r := w.run(fmt.Sprintf("kill -0 %d", pid)); r.code == 0 {
		t.Error("a killed process runs")
	}
	s.rest()
}

// A command and a terminal outlive the service: the next one lists them, and its clients type,
// read and kill.
func TestOutlivesService(t *testing.T) {
	w := newWorld(t)
	cat := w.stream(start, m{"process": m{"cmd": "cat"}, "tag": "the cat"}).pid()
	tty := w.stream(start, m{"process": m{"cmd": "cat"}, "pty": m{"size": m{"cols": 80, "rows": 24}}, "stdin": false}).pid()
	long := w.stream(start, bash("sleep 600 #"+strings.Repeat("x", 20_000))).pid()
	w.Restart()
	w.handler = envd.New(w.Service, nil)
	text, err := json.Marshal(w.rpc("process.Process/List", m{}, 200))
	w.OK(err)
	for _, pid := range []int{cat, tty, long} {
		if !strings.Contains(string(text), fmt.Sprintf(`"pid":%d`, pid)) {
			t.Errorf("process %d is not listed: %s", pid, text)
		}
	}
	if !strings.Contains(string(text), `"tag":"the cat"`) {
		t.Errorf("got %s", text)
	}
	for kind, pid := range map[string]int{"stdin": cat, "pty": tty} {
		s := w.stream("process.Process/Connect", m{"process": m{"pid": pid}})
		s.pid()
		input := m{"process": m{"pid": pid}, "input": m{kind: base64.StdEncoding.EncodeToString([]byte("hello\n"))}}
		w.rpc("process.Process/SendInput", input, 200)
		s.until("hello")
		w.rpc("process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_SIGKILL"}, 200)
		if r := s.rest(); r.status != "signal: killed" {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	w.rpc("process.Process/SendSignal", m{"process": m{"pid": long}, "signal": "SIGNAL_SIGKILL"}, 200)
	w.fails("process.Process/SendSignal", m{"process": m{"pid": cat}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found")
}

func TestTerminal(t *testing.T) {
	w := newWorld(t)
	s := w.stream(start, m{
		"process": m{"cmd": "/bin/bash", "args": []string{"-i", "-l"}, "envs": m{"TERM": "xterm-256color"}},
		"pty":     m{"size": m{"cols": 81, "rows": 24}},
	})
	pid := s.pid()
	input := func(text string) {
		w.Helper()
		w.rpc("process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"pty": base64.StdEncoding.EncodeToString([]byte(text))}}, 200)
	}
	input("stty size\n")
	s.until("24 81")
	w.rpc("process.Process/Update", m{"process": m{"pid": pid}, "pty": m{"size": m{"cols": 100, "rows": 30}}}, 200)
	input("stty size\n")
	s.until("30 100")
	w.fails("process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": "eA=="}}, 500, "internal")
	w.fails("process.Process/CloseStdin", of(pid), 500, "unknown")
	w.OK(s.body.Close())
	again := w.stream("process.Process/Connect", of(pid))
	if got := again.pid(); got != pid {
		t.Errorf("pid %d, want %d", got, pid)
	}
	input("echo again; exit 4\n")
	if r := again.rest(); r.code != 4 || !strings.Contains(r.pty, "again") || r.out != "" {
		t.Errorf("%+v", r)
	}
}

// A process outlives its client, whose place another one takes; how it has ended is known for a
// while.
func TestConnect(t *testing.T) {
	w := newWorld(t)
	s := w.stream(start, bash("echo lost; until [ -e go ]; do sleep 0.01; done; echo seen; exit 5"))
	pid := s.pid()
	s.until("lost")
	w.OK(s.body.Close())
	a, b := w.stream("process.Process/Connect", of(pid)), w.stream("process.Process/Connect", of(pid))
	if a.pid() != pid || b.pid() != pid {
		t.Error("other numbers")
	}
	w.run("touch go")
	for _, s := range []*stream{a, b} {
		if r := s.rest(); r.out != "seen\n" || r.code != 5 || r.closing != "ok" {
			t.Errorf("%+v", r)
		}
	}
	late := w.stream("process.Process/Connect", of(pid))
	late.pid()
	if r := late.rest(); r.code != 5 || r.out != "" || r.closing != "ok" {
		t.Errorf("%+v", r)
	}
}

// A time-out kills the process, whether its client is there or not.
func TestTimeout(t *testing.T) {
	w := newWorld(t)
	s := w.stream(start, bash("echo $$; sleep 600; echo never"), "Connect-Timeout-Ms", "3000")
	pid := s.pid()
	if r := s.rest(); r.closing != "deadline_exceeded" || r.ended {
		t.Errorf("%+v", r)
	}
	gone := func(pid int) func() bool {
		return func() bool { return w.run(fmt.Sprintf("kill -0 %d", pid)).code != 0 }
	}
	wait.Until(t, "the end of the process", gone(pid))
	s = w.stream(start, bash("sleep 600"), "Connect-Timeout-Ms", "3000")
	pid = s.pid()
	w.OK(s.body.Close())
	wait.Until(t, "the end of the process without its client", gone(pid))
}

// A client that reads nothing keeps neither the process nor other clients for ever: when it goes,
// they go on.
func TestSlowClient(t *testing.T) {
	w := newWorld(t)
	slow := w.stream(start, bash("until [ -e go ]; do sleep 0.01; done; head -c 50000000 /dev/zero; echo end"))
	pid := slow.pid()
	quick := w.stream("process.Process/Connect", of(pid))
	quick.pid()
	w.run("touch go")
	done := make(chan result, 1)
	go func() { done <- quick.rest() }() // ends with the process
	quiet := w.stream("process.Process/Connect", of(pid))
	quiet.pid()
	w.OK(quiet.body.Close())
	w.OK(slow.body.Close())
	if r := <-done; r.code != 0 || len(r.out) < 50_000_000 || !strings.HasSuffix(r.out, "end\n") {
		t.Errorf("%d bytes, code %d", len(r.out), r.code)
	}
}

// The connections of a sandbox that is killed are broken, when health already says so, and with no
// end of a process that has ended with it.
func TestKilledSandbox(t *testing.T) {
	w := newWorld(t)
	run, watch := w.stream(start, bash("echo up; sleep 600")), w.stream("filesystem.Filesystem/WatchDir", m{"path": "."})
	pid := run.pid()
	run.until("up")
	if f, _, err := watch.next(); err != nil || f.Start == nil {
		t.Fatal(f, err)
	}
	if status, text := w.do(http.MethodGet, "/health", "", "X-Access-Token", ""); status != 204 || text != "" {
		t.Errorf("health: %d %s", status, text)
	}
	kill := func(pid any) {
		w.rpc("process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_SIGKILL"}, 200)
	}
	stays, why := w.stream(start, bash("sleep 600")), errors.New("it stays")
	if err := w.handler.Leave(w.box.ID, func() error { kill(stays.pid()); return why }); err != why { //nolint:errorlint // itself
		t.Error(err)
	}
	if r := stays.rest(); r.broken || !r.ended {
		t.Errorf("the sandbox stays: %+v", r)
	}
	w.OK(w.handler.Leave(w.box.ID, func() error { kill(pid); return nil })) // as the control API does
	for _, s := range []*stream{run, watch} {
		if r := s.rest(); !r.broken || r.ended {
			t.Errorf("%+v", r)
		}
	}
	lone := w.stream(start, bash("sleep 600"))
	lone.pid()
	w.OK(w.Service.Destroy(w.Ctx, w.box.Caller, w.box.ID)) // by another front end
	if r := lone.rest(); !r.broken {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{"GET /health", "GET /files?path=x", "POST /process.Process/List"} {
		method, path, _ := strings.Cut(path, " ")
		status, text := w.do(method, path, "{}", "Content-Type", "application/json")
		if want := fmt.Sprintf(`{"sandboxId":%q,"message":"The sandbox was not found","code":502}`, w.box.SandboxID); status != 502 || text != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
