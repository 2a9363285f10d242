package server_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// A ran is what runCommand answers.
type ran struct {
	Stdout, Stderr, StartError string
	StdoutBytes                []byte
	ExitCode                   int
	TimedOut, Truncated        bool
	StdoutDropped              int64
	Error                      *struct{ Code, Message string }
	Result                     *ran
}

func (n *native) run(more m) *ran {
	n.Helper()
	_, _, body := n.call("runCommand", more)
	r := &ran{}
	n.OK(json.Unmarshal([]byte(body), r))
	return r
}

func TestPrograms(t *testing.T) {
	n := newNative(t)
	r := n.run(m{
		"command": []string{"sh", "-c", `cat; echo "$A $1" "$PWD" >&2; exit 3`, "sh", "a b"},
		"env":     m{"A": "1"}, "cwd": "/tmp", "stdin": m{"content": "in\n"},
	})
	if r.Stdout != "in\n" || r.Stderr != "1 a b /tmp\n" || r.ExitCode != 3 {
		t.Errorf("a program with input, environment and directory: %+v", r)
	}
	if r = n.run(m{"command": []string{"cat"}, "stdin": m{"encoding": "base64", "content": "AP8="}}); string(r.StdoutBytes) != "\x00\xff" {
		t.Errorf("bytes: %+v", r)
	}
	if r = n.run(m{"command": []string{"cat"}}); r.Stdout != "" || r.ExitCode != 0 {
		t.Errorf("a program without input: %+v", r)
	}
	if r = n.run(m{"command": []string{"printf", "12345"}, "maxBytes": 2}); r.Stdout != "12" || !r.Truncated || r.StdoutDropped != 3 {
		t.Errorf("maxBytes: %+v", r)
	}
	if r = n.run(m{"command": []string{"no-such-program"}}); r.ExitCode != 127 || r.StartError == "" || r.Error != nil {
		t.Errorf("a program that does not exist: %+v", r)
	}
	r = n.run(m{"command": []string{"sh", "-c", "echo begun; sleep 1000"}, "timeoutMs": 300})
	if r.Error == nil || r.Error.Code != "timedOut" || r.Result == nil || r.Result.Stdout != "begun\n" || !r.Result.TimedOut {
		t.Errorf("a program that times out: %+v", r)
	}
	// It does not wait for the shell, and the shell does not know its variables.
	n.ok("executeBash", m{"command": "B=1; cd /tmp"})
	if r = n.run(m{"command": []string{"sh", "-c", `echo "$B" "$PWD"`}}); r.Stdout != " /workspace\n" {
		t.Errorf("a program beside the shell: %+v", r)
	}
	n.fails("runCommand", m{}, 400, "no command")
	n.fails("runCommand", m{"command": []string{"true"}, "env": m{"a b": "1"}}, 400, "variable")
	n.fails("runCommand", m{"command": []string{"true"}, "timeoutMs": -1}, 400, "out of range")
	n.fails("runCommand", m{"command": []string{"true"}, "maxBytes": -1}, 400, "maxBytes")
	n.fails("runCommand", m{"command": []string{"true"}, "maxBytes": 1 << 40}, 400, "maxBytes")
	n.fails("runCommand", m{"command": []string{"cat"}, "stdin": m{"content": "x", "offset": 1}}, 400, "stdin")
	n.fails("runCommand", m{"command": []string{"true"}, "user": "root"}, 501, "user")
}

func TestProgramStream(t *testing.T) {
	n := newNative(t)
	_, _, body := n.call("streamCommand", m{"command": []string{"sh", "-c", "echo $A; echo err >&2; exit 4"}, "env": m{"A": "1"}})
	for _, part := range []string{"event: stdout\ndata: {\"text\":\"1\\n\"}", "event: stderr\ndata: {\"text\":\"err\\n\"}", "event: result\ndata: {\"exitCode\":4"} {
		if !strings.Contains(body, part) {
			t.Errorf("streamCommand lacks %q:\n%s", part, body)
		}
	}
	if _, _, body = n.call("streamCommand", m{"command": []string{"no-such-program"}}); !strings.Contains(body, `"startError":`) ||
		!strings.Contains(body, `"exitCode":127`) {
		t.Errorf("a program that does not exist: %s", body)
	}
	_, _, body = n.call("streamCommand", m{"command": []string{"sleep", "1000"}, "timeoutMs": 50})
	if !strings.HasPrefix(body, "event: error\n") || !strings.Contains(body, `"code":"timedOut"`) {
		t.Errorf("a program that times out: %s", body)
	}
}

// An owner has any number of sandboxes beside its own one, and lists its own only.
func TestMoreSandboxes(t *testing.T) {
	n := newNative(t)
	var a, b struct {
		SandboxID, State, MountPoint string
		Metadata                     map[string]string
		CreatedAt, ExpiresAt         int64
	}
	add := func(more m, to any) {
		t.Helper()
		_, _, body := n.call("addSandbox", more)
		n.OK(json.Unmarshal([]byte(body), to))
	}
	own := n.id
	n.id = ""
	add(nil, &a)
	add(m{"metadata": m{"for": "b"}, "env": m{"A": "1"}, "ttlMs": 3600_000, "cow": true}, &b)
	if a.SandboxID == own || a.SandboxID == b.SandboxID || a.State != "running" || a.MountPoint != "/workspace" || a.ExpiresAt != 0 {
		t.Errorf("addSandbox: %+v and %+v beside %s", a, b, own)
	}
	if b.Metadata["for"] != "b" || b.ExpiresAt-b.CreatedAt < 3500_000 {
		t.Errorf("addSandbox with metadata and a time to live: %+v", b)
	}
	if r := n.run(m{"sandboxId": b.SandboxID, "command": []string{"sh", "-c", "echo $A > /workspace/f; cat /workspace/f"}}); r.Stdout != "1\n" {
		t.Errorf("a variable of the sandbox: %+v", r)
	}
	if r := n.run(m{"sandboxId": a.SandboxID, "command": []string{"test", "-e", "/workspace/f"}}); r.ExitCode != 1 {
		t.Errorf("a file of the sandbox with cow is in another: %+v", r)
	}
	var all struct{ Sandboxes []struct{ SandboxID string } }
	list := func(text string) []struct{ SandboxID string } {
		t.Helper()
		n.OK(json.Unmarshal([]byte(text), &all))
		return all.Sandboxes
	}
	_, _, body := n.call("listSandboxes", nil)
	if found := list(body); len(found) != 3 || found[0].SandboxID != b.SandboxID || found[2].SandboxID != own {
		t.Errorf("listSandboxes: %s", body)
	}
	_, _, body = n.call("listSandboxes", by(yan, nil))
	if found := list(body); len(found) != 0 {
		t.Errorf("listSandboxes of another owner: %s", body)
	}
	n.fails("addSandbox", m{"ttlMs": -1}, 400, "ttlMs")
	n.fails("addSandbox", m{"metadata": m{"wolffia.a": "b"}}, 400, "wolffia.a")
	n.fails("addSandbox", m{"userId": ""}, 400, "user id")
	for _, id := range []string{a.SandboxID, b.SandboxID} {
		n.ok("destroySandbox", m{"sandboxId": id})
	}
}
