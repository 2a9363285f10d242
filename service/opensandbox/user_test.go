package opensandbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
	"wolffia/service"
)

// In a sandbox with root inside a command has the user that its request gives.
func TestUser(t *testing.T) {
	var w *world
	w = &world{servetest.New(t, "", func(o *service.Options) {
		o.Configure = func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{CodebasePath: w.Codebase, Root: true, Image: "busybox"}, nil
		}
	})}
	src := testimage.Source(t, store.Config{}, testimage.Layer(t, testimage.Busybox(t)...))
	src.As = "docker.io/library/busybox:latest"
	_, err := store.Open(w.State).Add(t.Context(), src, store.Limits{})
	w.OK(err)
	if status, text := w.call("POST", "/v1/sandboxes", `{"image":{"uri":"host"}}`); strings.Contains(text, "needs subordinate ids") {
		t.Skip(status, text)
	}
	_, execd := w.create("")
	const ids = "echo $(id -u):$(id -g)"
	for body, want := range map[string]string{
		"": "0:0", `,"uid":0`: "0:0", `,"uid":33`: "33:0", `,"uid":33,"gid":7`: "33:7", `,"gid":7`: "0:7", `,"uid":0,"gid":0`: "0:0",
	} {
		var q m
		w.OK(json.Unmarshal([]byte(`{"command":"`+ids+`"`+body+`}`), &q))
		if got := output(w.run(execd+"/command", q), "stdout"); got != want+"\n" {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	w.is("POST", execd+"/command", `{"command":"id","uid":-1}`, 400, "less than 0")

	// In the background too, and what was asked for is reported without that.
	var id string
	for _, e := range w.run(execd+"/command", m{"command": ids + " >/tmp/who", "background": true, "uid": 33, "gid": 7}) {
		if e.Type == "init" {
			id = e.Text
		}
	}
	var status m
	for status["running"] != false {
		_, text := w.call("GET", execd+"/command/status/"+id, "")
		w.OK(json.Unmarshal([]byte(text), &status))
	}
	if status["content"] != ids+" >/tmp/who" {
		t.Errorf("status: %v", status)
	}
	if got := output(w.run(execd+"/command", m{"command": "cat /tmp/who"}), "stdout"); got != "33:7\n" {
		t.Errorf("in the background: got %q", got)
	}

	var session struct {
		ID string `json:"session_id"`
	}
	w.OK(json.Unmarshal([]byte(w.is("POST", execd+"/session", `{}`, 200, "session_id")), &session))
	w.is("POST", execd+"/session/"+session.ID+"/run", `{"command":"id","uid":33}`, 200, "is of user root: use another session")
}
