package opensandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/wait"
)

func TestCommand(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	for _, c := range []struct {
		body           m
		stdout, stderr string
		code           int
	}{
		{m{"command": "echo out; echo err >&2; exit 3"}, "out\n", "err\n", 3},
		{m{"command": "true"}, "", "", 0},
		{m{"command": "printf 'a\\n\\n\\nb'"}, "a\n\n\nb", "", 0},
		{m{"command": "printf '\\n'"}, "\n", "", 0},
		{m{"command": "printf 'x\\377\\000y\\r\\n'"}, "x\xff\x00y\r\n", "", 0},
		{m{"command": "cat; echo over", "envs": m{"A": "b"}}, "over\n", "", 0},
		{m{"command": "echo $A$PWD", "cwd": "/tmp", "envs": m{"A": "b\nc"}}, "b c/tmp\n", "", 0},
		{m{"command": "kill -9 $$"}, "", "", 137},
		{m{"command": "sleep 1000 & echo begun"}, "begun\n", "", 0},
		{m{"command": "[[ a == a ]] && echo bash"}, "bash\n", "", 0},
		{m{"command": "head -c 200000 /dev/zero | tr '\\0' 'é'"}, strings.Repeat("\xc3", 200000), "", 0},
	} {
		events := w.run(execd+"/command", c.body)
		last := events[len(events)-1]
		if got := output(events, "stdout"); got != c.stdout {
			t.Errorf("%v: stdout %.200q", c.body, got)
		}
		if got := output(events, "stderr"); got != c.stderr {
			t.Errorf("%v: stderr %q", c.body, got)
		}
		if c.code == 0 && (last.Type != "execution_complete" || last.ExitCode == nil || *last.ExitCode != 0) ||
			c.code != 0 && (last.Type != "error" || last.Error == nil || last.Error.EName != "CommandExecError" || last.Error.EValue != strconv.Itoa(c.code) ||
				last.Error.Traceback[0] != fmt.Sprint("exit status ", c.code) || *last.ExitCode != c.code) {
			t.Errorf("%v: the last event is %+v", c.body, last)
		}
		for _, e := range events {
			if e.Text != e.Data && (e.Type == "stdout" || e.Type == "stderr") || strings.Contains(strings.TrimSuffix(e.Text, "\n"), "\n") {
				t.Errorf("%v: event %.100q", c.body, e.Text)
			}
		}
	}
	var events []event
	// Texts that are too long for an argument of a program.
	pad := ": '" + strings.Repeat("x\n", 100<<10) + "'\n"
	for _, c := range []struct{ command, stdout string }{
		{pad + `cat; echo "$0 $#"; cat <<X` + "\nhere\nX\nexit 3", "bash 0\nhere\n"},
		{strings.Repeat(pad, 25) + "echo long; exit 3", "long\n"},
	} {
		events := w.run(execd+"/command", m{"command": c.command})
		if got, last := output(events, "stdout"), events[len(events)-1]; got != c.stdout || last.Error == nil || last.Error.EValue != "3" {
			t.Errorf("a text of %d bytes: %q, %+v", len(c.command), got, last)
		}
	}
	events = w.run(execd+"/command", m{"command": pad + "echo $$ $PPID; cat; exit 4", "background": true})
	wait.Until(t, "the end of a long command in the background", func() bool {
		_, _, text := w.Do("GET", execd+"/command/status/"+events[0].Text, nil)
		return strings.Contains(text, `"exit_code":4`) && strings.Contains(text, `"content":": 'x`)
	})
	for _, path := range []string{"/command", "/session/s/run"} {
		if status, _, text := w.Do("POST", execd+path, strings.NewReader(`{"command":"true","envs":{"A":"`+strings.Repeat("x", 200<<10)+`"}}`)); status != 400 && status != 404 {
			t.Errorf("%s with a variable that is too long: %d %s", path, status, text)
		}
	}
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		events = w.run(execd+"/command", m{"command": "echo part; trap '' INT TERM; sleep 1000", "timeout": timeout.Milliseconds()})
		return output(events, "stdout") == "part\n"
	})
	if last := events[len(events)-1]; last.Type != "error" || last.Error.EValue != "-1" || last.Error.Traceback[0] != "signal: killed" {
		t.Errorf("a timeout: %+v", last)
	}
	for body, part := range map[string]string{
		`{"command":" "}`: "command: empty", `{}`: "command: empty", `{"command":"true","cwd":"/nowhere"}`: "no such file or directory",
		`{"command":"true","timeout":-1}`: "timeout", `{"command":"a\u0000b"}`: "NUL", `{"command":"true","envs":{"=":"x"}}`: "",
		`{"command":`: "not JSON", `{"command":3}`: "wrong type",
	} {
		w.is("POST", execd+"/command", body, 400, part)
	}
	w.is("POST", execd+"/command", `{"command":"id","uid":0}`, 501, "all processes of the sandbox")
	w.is("POST", execd+"/code", `{"code":"1","context":{"language":"r"}}`, 501, "no kernel runs it")
	w.is("POST", execd+"/code", `{"code":"1","context":{"id":"x"}}`, 404, "no context")
	w.is("GET", execd+"/code/contexts", "", 200, "[]")
	w.is("GET", execd+"/proxy/80/", "", 502, "no server listens there")
	w.is("GET", execd+"/nothing", "", 404, "NOT_FOUND")
}

// Output is sent when it is written, and the command ends when its client goes, or is
// interrupted.
func TestCommandEnds(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	begin := func(command string, until string) (id string, s *bufio.Scanner, cancel func()) {
		ctx, cancel := context.WithCancel(w.Ctx)
		text, err := json.Marshal(m{"command": command})
		w.OK(err)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.Address+execd+"/command", strings.NewReader(string(text)))
		w.OK(err)
		res, err := w.Client.Do(req)
		w.OK(err)
		t.Cleanup(func() { _ = res.Body.Close(); cancel() })
		s = bufio.NewScanner(res.Body)
		for s.Scan() {
			var e event
			if len(s.Bytes()) == 0 {
				continue
			}
			w.OK(json.Unmarshal(s.Bytes(), &e))
			if e.Type == "init" {
				id = e.Text
			}
			if e.Type == until {
				return id, s, cancel
			}
		}
		t.Fatalf("no event %s: %v", until, s.Err())
		return "", nil, nil
	}
	// The lock tells when the processes have ended: each of them holds it.
	waitGone := func(what string) {
		if got := w.run(execd+"/command", m{"command": "flock /tmp/lock echo gone", "timeout": 60_000}); output(got, "stdout") != "gone\n" {
			t.Errorf(`%s: got %+v; want output(got, "stdout") == %q`, what, got, "gone\n")
		}
	}
	_, _, leave := begin("exec 3>/tmp/lock; flock 3; echo begun; sleep 1000", "stdout")
	leave()
	waitGone("the client has gone")
	id, s, _ := begin("exec 3>/tmp/lock; flock 3; echo begun; sleep 1000", "stdout")
	if text := w.is("GET", execd+"/command/status/"+id, "", 200, `"running":true`); strings.Contains(text, "exit_code") {
		t.Errorf("it runs: %s", text)
	}
	w.is("DELETE", execd+"/command?id="+id, "", 200, "")
	rest := ""
	for s.Scan() {
		rest += s.Text()
	}
	if !strings.Contains(rest, `"evalue":"130"`) {
		t.Errorf("interrupted: %s", rest)
	}
	waitGone("interrupted")
	w.is("GET", execd+"/command/status/"+id, "", 200, `"exit_code":130`)
	w.is("DELETE", execd+"/command?id="+id, "", 200, "") // it has ended
	id, s, _ = begin("sleep 1000", "init")               // it comes before there is output
	w.is("DELETE", execd+"/command?id="+id, "", 200, "")
	for s.Scan() { // to the end of the reply
	}
	w.is("GET", execd+"/command/status/"+id, "", 200, `"running":false`)
	w.is("DELETE", execd+"/command?id=x", "", 404, "command not found")
	w.is("DELETE", execd+"/command", "", 400, "MISSING_QUERY")
	w.is("GET", execd+"/command/status/x", "", 404, "command not found")
	w.is("GET", execd+"/command/x/logs", "", 404, "command not found")
	_, s, _ = begin("echo begun; sleep 1000", "stdout")
	w.Cancel()
	for rest = ""; s.Scan(); {
		rest += s.Text()
	}
	if !strings.Contains(rest, "the service is being stopped") || strings.Contains(rest, "exitCode") {
		t.Errorf("the service was stopped: %s", rest)
	}
}

func TestBackgroundCommand(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create(`{"image":{"uri":"host"},"entrypoint":["sh","-c","echo 'it'\"'\"'s up'; exec sleep 1000"]}`)
	w.run(execd+"/command", m{"command": "mkfifo /tmp/go"})
	begin := func(body m) string {
		body["background"] = true
		events := w.run(execd+"/command", body)
		if len(events) != 3 || events[2].Type != "execution_complete" {
			t.Fatalf(`run: got events %+v; want len(events) == 3 and events[2].Type == "execution_complete"`, events)
		}
		return events[0].Text
	}
	id := begin(m{"command": "echo one; echo two >&2; read x </tmp/go; echo $A; exit 5", "envs": m{"A": "three"}, "cwd": "/tmp"})
	w.is("GET", execd+"/command/status/"+id, "", 200, `"running":true`)
	w.Restart() // a killed service loses nothing
	w.run(execd+"/command", m{"command": "echo x >/tmp/go"})
	// It ends by itself: wait for that as the shell does.
	status := func() string {
		for {
			if text := w.is("GET", execd+"/command/status/"+id, "", 200, id); strings.Contains(text, `"running":false`) {
				return text
			}
			w.run(execd+"/command", m{"command": "sleep 0.01"})
		}
	}
	if text := status(); !strings.Contains(text, `"exit_code":5`) || !strings.Contains(text, "finished_at") || !strings.Contains(text, `"content":"echo one;`) {
		t.Errorf("it has ended: %s", text)
	}
	for cursor, want := range map[string]string{"": "one\ntwo\nthree\n", "?cursor=4": "two\nthree\n", "?cursor=14": "", "?cursor=100": ""} {
		code, header, text := w.Do("GET", execd+"/command/"+id+"/logs"+cursor, nil)
		next := "14"
		if cursor == "?cursor=100" {
			next = "100"
		}
		if code != 200 || text != want || header.Get("EXECD-COMMANDS-TAIL-CURSOR") != next {
			t.Errorf("logs%s: %d %v %q", cursor, code, header, text)
		}
	}
	w.is("GET", execd+"/command/"+id+"/logs?cursor=-1", "", 400, "INVALID_PARAMETER")
	if _, _, text := w.Do("GET", execd+"/command/entrypoint/logs", nil); text != "it's up\n" {
		t.Errorf("the entrypoint: %q", text)
	}
	// bash gives the signal up that comes to a child of its before that has become another program.
	id = begin(m{"command": "trap 'exit 130' INT; >/tmp/ready; while :; do sleep 0.01; done"})
	w.run(execd+"/command", m{"command": "until [ -e /tmp/ready ]; do sleep 0.01; done"})
	w.is("DELETE", execd+"/command?id="+id, "", 200, "")
	if text := status(); !strings.Contains(text, `"exit_code":130`) {
		t.Errorf("interrupted: %s", text)
	}
	// It is a shell of its own, and ends when it does, not when somebody asks.
	id = begin(m{"command": "echo $$ $BASHPID >/tmp/pids; exec sleep 1000"})
	w.run(execd+"/command", m{"command": "until read a b </tmp/pids; do sleep 0.01; done 2>/dev/null; kill -9 $a; sleep 1.5"})
	if text := status(); !strings.Contains(text, `"exit_code":137`) {
		t.Errorf("killed by the number in its file: %s", text)
	} else {
		var ended struct {
			StartedAt  time.Time `json:"started_at"`
			FinishedAt time.Time `json:"finished_at"`
		}
		w.OK(json.Unmarshal([]byte(text), &ended))
		if took := ended.FinishedAt.Sub(ended.StartedAt); took < 0 || time.Since(ended.FinishedAt) < time.Second {
			t.Errorf("it took %v, and ended only now: %s", took, text)
		}
	}
	id = begin(m{"command": "trap '' INT TERM; sleep 1000", "timeout": 100})
	w.Restart() // the next service keeps the time
	if text := status(); strings.Contains(text, `"exit_code":0`) {
		t.Errorf("a timeout: %s", text)
	}
}

// A cursor is the offset of what comes with it, also while a command writes more than is kept between two requests.
func TestLogsOfFastCommand(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	const first, line = 1e14, 16 // its lines have 15 digits
	events := w.run(execd+"/command", m{"command": "seq 100000000000000 100000100000000", "background": true})
	id := events[0].Text
	cursor, dropped, read := uint64(0), 0, 0
	guard := time.Now().Add(time.Minute)
	for n := 0; n < 60 || dropped == 0 && time.Now().Before(guard); n++ { // a busy machine writes less between two requests
		_, header, text := w.Do("GET", fmt.Sprintf("%s/command/%s/logs?cursor=%d", execd, id, cursor), nil)
		gap, _ := strconv.ParseUint(header.Get("Wolffia-Dropped-Bytes"), 10, 64)
		next, err := strconv.ParseUint(header.Get("EXECD-COMMANDS-TAIL-CURSOR"), 10, 64)
		at := cursor + gap
		if err != nil || next-at != uint64(len(text)) {
			t.Fatalf("from %d, %d lost, to %d: %d bytes, %v", cursor, gap, next, len(text), err)
		}
		for skip := int((line - at%line) % line); len(text) >= skip+line; skip += line {
			if n, err := strconv.ParseUint(text[skip:skip+line-1], 10, 64); err != nil || n != first+(at+uint64(skip))/line {
				t.Fatalf("at %d: %q, %v", at+uint64(skip), text[skip:skip+line], err)
			}
		}
		if gap > 0 {
			dropped++
		}
		read, cursor = read+len(text), next
	}
	if read == 0 || dropped == 0 {
		t.Errorf("%d bytes, %d gaps: the command is too slow for this test", read, dropped)
	}
	w.is("DELETE", execd+"/command?id="+id, "", 200, "")
}

func TestSession(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	var s struct {
		ID string `json:"session_id"`
	}
	w.OK(json.Unmarshal([]byte(w.is("POST", execd+"/session", `{"cwd":"/tmp"}`, 200, "session_id")), &s))
	run := execd + "/session/" + s.ID + "/run"
	for _, c := range []struct{ command, stdout string }{
		{"pwd; f() { echo from f; }; V=v; shopt -s extglob; cd /", "/tmp\n"},
		{`f; echo "$V$PWD"; shopt extglob`, "from f\nv/\nextglob        \ton\n"},
		{"cat <<E\ndoc\nE\n# comment", "doc\n"},
		{"printf 'no newline'", "no newline"},
		{"sleep 1000 & echo bg", "bg\n"},
	} {
		if got := output(w.run(run, m{"command": c.command}), "stdout"); got != c.stdout {
			t.Errorf("%q: %q, want %q", c.command, got, c.stdout)
		}
	}
	events := w.run(run, m{"command": "echo err >&2; (exit 4)"})
	if last := events[len(events)-1]; output(events, "stderr") != "err\n" || last.Error == nil || last.Error.EValue != "4" {
		t.Errorf(`run: got events %+v; want output(events, "stderr") == %q and last.Error != nil and last.Error.EValue == "4"`,
			events, "err\n")
	}
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		events = w.run(run, m{"command": "echo part; sleep 1000", "timeout": timeout.Milliseconds()})
		return output(events, "stdout") == "part\n"
	})
	if last := events[len(events)-1]; last.Error == nil || last.Error.EValue != "-1" {
		t.Errorf("a timeout: %+v", last)
	}
	if got := output(w.run(run, m{"command": "echo $V"}), "stdout"); got != "v\n" {
		t.Errorf("the state after a timeout: %q", got)
	}
	w.is("DELETE", execd+"/session/"+s.ID, "", 200, "")
	w.is("DELETE", execd+"/session/"+s.ID, "", 404, "CONTEXT_NOT_FOUND")
	w.is("POST", run, `{"command":"true"}`, 404, "CONTEXT_NOT_FOUND")
	w.is("POST", execd+"/session", `{"cwd":"/nowhere"}`, 400, "")
	w.is("POST", execd+"/session", "", 200, "session_id")
}

// A session goes with its sandbox: then it is not found. If another process restarts the sandbox, the first
// command that notices can have begun its reply.
func TestSessionOfEarlierStart(t *testing.T) {
	w := newWorld(t)
	id, execd := w.create("")
	for _, again := range []func(){
		func() {
			for _, verb := range []string{"stop", "start"} {
				cmd := exec.CommandContext(w.Ctx, filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", w.State, verb, id)
				if said, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: got err %v, said %s; want err == nil", verb, err, said)
				}
			}
		},
		func() {
			w.is("POST", "/v1/sandboxes/"+id+"/pause", "", 202, "")
			w.is("POST", "/v1/sandboxes/"+id+"/resume", "", 202, "")
		},
	} {
		var s struct {
			ID string `json:"session_id"`
		}
		w.OK(json.Unmarshal([]byte(w.is("POST", execd+"/session", "", 200, "session_id")), &s))
		w.run(execd+"/session/"+s.ID+"/run", m{"command": "A=1"})
		again()
		if status, text := w.call("POST", execd+"/session/"+s.ID+"/run", `{"command":"echo $A"}`); !strings.Contains(text, "no session") {
			t.Errorf("the first command: %d %s", status, text)
		}
		for _, body := range []string{`{"command":"echo $A"}`, `{"command":"echo $A","resumeWithin":1000}`} {
			w.is("POST", execd+"/session/"+s.ID+"/run", body, 404, "CONTEXT_NOT_FOUND")
		}
	}
}
