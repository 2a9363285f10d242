package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
)

// The questions of a sandbox are waited for, and answered, by whom the service allows it.
func TestQuestions(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	leak.Check(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") }))
	t.Cleanup(site.Close)
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	dir := t.TempDir()
	w := &world{T: suite.New(t), dir: dir, state: filepath.Join(dir, "state")}
	for _, d := range []string{filepath.Dir(dir), dir} {
		w.OK(os.Chmod(d, 0o755))
	}
	rt := w.open()
	t.Cleanup(func() { shimtest.DestroyAll(t, w.open()) })
	w.serve(rt, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{
				Network: runtime.NetworkFiltered, Egress: &network.Policy{Hosts: map[string]string{"web.example": "127.0.0.1"}},
				Ask: []string{runtime.AskNetwork},
			}, nil
		},
	}, nil)
	id := w.box(zoe)
	type questions struct {
		Questions []runtime.Question
		Seen      int64
	}
	ask := func(seen int64) (q questions) {
		r := w.call(w.Ctx, "questions", by(zoe, m{"sandboxId": id, "seen": seen, "waitMs": 50000}))
		w.is("questions", r, 200, "")
		w.OK(json.Unmarshal([]byte(r.body), &q))
		return q
	}
	seen := ask(0).Seen
	got := make(chan *reply, 1)
	for _, allow := range []bool{false, true} {
		go func() {
			got <- w.call(w.Ctx, "executeBash", by(zoe, m{"sandboxId": id, "command": "curl -sS http://web.example:" + port}))
		}()
		q := ask(seen)
		if len(q.Questions) != 1 || q.Questions[0].Host != "web.example:"+port {
			t.Fatalf("waiting: %+v", q)
		}
		answer := m{"sandboxId": id, "question": q.Questions[0].ID, "allow": allow, "scope": "always"}
		w.is("another owner's", w.call(w.Ctx, "answerQuestion", by(yan, answer)), 404, "notFound")
		w.is("always", w.call(w.Ctx, "answerQuestion", by(zoe, answer)), 501, "unsupported")
		answer["scope"] = "once"
		w.is("answer", w.call(w.Ctx, "answerQuestion", by(zoe, answer)), 200, "")
		if r := <-got; strings.Contains(r.Stdout, "reached") != allow {
			t.Errorf("allow %v: %+v", allow, r)
		}
		w.is("the second answer", w.call(w.Ctx, "answerQuestion", by(zoe, answer)), 404, "notFound")
		seen = ask(q.Seen).Seen
	}
	w.is("another owner's", w.call(w.Ctx, "questions", by(yan, m{"sandboxId": id})), 404, "notFound")
	other := service.WithCaller(w.Ctx, service.Caller{Owner: zoe})
	in, err := w.service.Inside(other, service.Caller{Owner: zoe}, id)
	w.OK(err)
	if err := in.Answer(other, &runtime.Answer{Question: "q9"}); err == nil || !strings.Contains(err.Error(), "--allow-answers") {
		t.Errorf("an owner with a key: %v", err)
	}
}
