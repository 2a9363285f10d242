package e2b

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service/e2b/fault"
	"wolffia/service/registry"
)

// newBuild returns a handler with a build.
func newBuild(t *testing.T, o *Builds) (*Handler, *templateBuild) {
	t.Helper()
	h := &Handler{opts: new(stream.Options).Whole(), builds: newBuilder(o)}
	t.Cleanup(h.Close)
	b := &templateBuild{id: "b", template: "t", tag: "default", began: time.Now(), status: waiting, dir: o.Temp + "/b"}
	if err := h.builds.add(b, nil, maxTemplates); err != nil {
		t.Fatal(err)
	}
	return h, b
}

// A slowClient takes nothing while something of a build is locked.
type slowClient struct {
	*httptest.ResponseRecorder
	t *testing.T
	b *templateBuild
}

func (c slowClient) Write(text []byte) (int, error) {
	if !c.b.mu.TryLock() {
		c.t.Error("the build is locked while its client reads")
	} else {
		c.b.mu.Unlock()
	}
	return c.ResponseRecorder.Write(text)
}

// A client that does not read the log of its build holds up neither that nor other owners' builds.
func TestSlowReaderOfLog(t *testing.T) {
	h, b := newBuild(t, &Builds{Temp: t.TempDir()})
	_, _ = b.Write([]byte("one\ntwo\n"))
	r := httptest.NewRequest(http.MethodGet, "/templates/t/builds/b/status?logsOffset=1", nil)
	r.SetPathValue("id", "t")
	r.SetPathValue("build", "b")
	w := httptest.NewRecorder()
	if err := h.buildStatus(slowClient{w, t, b}, r); err != nil {
		t.Fatal(err)
	}
	if text := w.Body.String(); !strings.Contains(text, `"two"`) || strings.Contains(text, `"one"`) {
		t.Errorf("got %s", text)
	}
}

// What the steps of a build print is bounded, however long its lines are.
func TestLogIsBounded(t *testing.T) {
	b := new(templateBuild)
	for range 2 * maxText >> 15 {
		_, _ = b.Write([]byte(strings.Repeat("x", 1<<15)))
	}
	if size := len(b.log) << 15; size > maxText {
		t.Errorf("%d bytes are kept, want at most %d", size, maxText)
	}
}

// A build begins once, with whole uploads only.
func TestBuildBeginsOnce(t *testing.T) {
	h, b := newBuild(t, &Builds{Temp: t.TempDir()})
	isConflict := func(err error) bool {
		f := new(fault.Error)
		return errors.As(err, &f) && f.Status == http.StatusConflict
	}
	if err := b.copy(); err != nil {
		t.Fatal(err)
	}
	if err := b.begin(); !isConflict(err) {
		t.Errorf("it begins during an upload: %v", err)
	}
	b.copied()
	if err := b.begin(); err != nil {
		t.Error(err)
	}
	if again, late := b.begin(), b.copy(); !isConflict(again) || !isConflict(late) {
		t.Errorf("a second beginning: %v; an upload: %v", again, late)
	}
	h.builds.drop(b)
}

// A service that lets requests build no more begins none of the builds that wait for files.
func TestNoBuildsAnyMore(t *testing.T) {
	may := true
	h, _ := newBuild(t, &Builds{Temp: t.TempDir(), Allowed: func() bool { return may }})
	start := func() error {
		r := httptest.NewRequest(http.MethodPost, "/v2/templates/t/builds/other", strings.NewReader(`{"fromImage":"x"}`))
		r.SetPathValue("id", "t")
		r.SetPathValue("build", "other")
		return h.startBuild(httptest.NewRecorder(), r)
	}
	for want, is := range map[int]bool{http.StatusNotFound: true, http.StatusNotImplemented: false} {
		may = is
		if f := new(fault.Error); !errors.As(start(), &f) || f.Status != want {
			t.Errorf("allowed %v: got %+v, want status %d", is, f, want)
		}
	}
}

// Builds of one owner run one after the other, those of others at the same time, and no more than
// maxAtOnce.
func TestBuildsOfOwners(t *testing.T) {
	started, release := make(chan string, 10), make(chan struct{})
	h, _ := newBuild(t, &Builds{Temp: t.TempDir(), Build: func(_ context.Context, q *BuildRequest, _ io.Writer) error {
		started <- q.Dir
		<-release
		return nil
	}})
	begin := func(o registry.Owner, name string) {
		before, end := h.builds.turn(o)
		h.builds.run.Go(func() {
			defer end()
			_ = h.builds.build(new(templateBuild), before, &BuildRequest{Dir: name})
		})
	}
	zoe, tom := registry.Owner{UserID: "zoe"}, registry.Owner{UserID: "tom"}
	begin(zoe, "zoe")
	if got := wait.Receive(t, "the first build", started); got != "zoe" {
		t.Error(got)
	}
	begin(zoe, "zoe again")
	begin(tom, "tom")
	if got := wait.Receive(t, "another owner's build", started); got != "tom" {
		t.Errorf("%s runs beside the owner's first", got)
	}
	release <- struct{}{}
	release <- struct{}{}
	if got := wait.Receive(t, "the second build", started); got != "zoe again" {
		t.Error(got)
	}
	close(release)
	h.builds.run.Wait()
	if len(h.builds.turns) > 0 {
		t.Errorf("turns are left: %v", h.builds.turns)
	}
}

// An owner has a limited number of templates: one that is built anew is none more.
func TestTemplatesAreBounded(t *testing.T) {
	h, b := newBuild(t, &Builds{Temp: t.TempDir()})
	other := &templateBuild{template: "other", tag: "default", began: time.Now(), status: waiting}
	if err := h.builds.add(other, []string{"x:default"}, 2); !errors.Is(err, runtime.ErrDenied) {
		t.Errorf("a third template: %v", err)
	}
	if err := h.builds.add(other, []string{"x:default", "other:default"}, 2); err != nil {
		t.Errorf("one of two that exist: %v", err)
	}
	b.end(nil)
	if err := h.builds.add(&templateBuild{template: "new", tag: "default"}, nil, 2); err != nil {
		t.Errorf("after a build that was removed: %v", err)
	}
}
