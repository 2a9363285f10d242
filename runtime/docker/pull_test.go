package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/image/store"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/runtime"
)

// A oneImage is a registry on loopback with one image, x, which it hands out (OCI Distribution
// Specification, pulling). Its layer may be handed out in another way.
type oneImage struct {
	*httptest.Server
	layer http.HandlerFunc // nil: at once
}

// name is the image's.
func (r *oneImage) name() string { return strings.TrimPrefix(r.URL, "http://") + "/x:1" }

func serve(t *testing.T, c store.Config, files ...testimage.File) *oneImage {
	t.Helper()
	layer := testimage.Layer(t, files...)
	config := testimage.Config(t, c, layer)
	const media = "application/vnd.docker."
	describe := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": media + kind, "size": len(b), "digest": testimage.Digest(b)}
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": media + "distribution.manifest.v2+json",
		"config": describe("container.image.v1+json", config),
		"layers": []any{describe("image.rootfs.diff.tar.gzip", layer)}, // need not be compressed
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &oneImage{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		serve := func(b []byte) { http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(b)) }
		switch path := req.URL.Path; {
		case path == "/v2/":
		case path == "/v2/x/manifests/1", path == "/v2/x/manifests/"+testimage.Digest(manifest):
			w.Header().Set("Content-Type", media+"distribution.manifest.v2+json")
			w.Header().Set("Docker-Content-Digest", testimage.Digest(manifest))
			serve(manifest)
		case path == "/v2/x/blobs/"+testimage.Digest(config):
			serve(config)
		case path == "/v2/x/blobs/"+testimage.Digest(layer) && r.layer != nil:
			r.layer(w, req)
		case path == "/v2/x/blobs/"+testimage.Digest(layer):
			serve(layer)
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(r.Close)
	t.Cleanup(func() {
		if has(t, r.name()) {
			dockertest.Docker(t, "rmi", "--force", r.name())
		}
	})
	return r
}

// has reports whether the engine has an image.
func has(t *testing.T, image string) bool {
	t.Helper()
	return strings.TrimSpace(dockertest.Docker(t, "images", "--quiet", image)) != ""
}

// none checks that no sandbox was made.
func none(t *testing.T, rt *shimtest.Runtime) {
	t.Helper()
	if all, err := rt.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("List: got all %v, err %v; want err == nil and len(all) <= 0", all, err)
	}
}

// An image that the engine does not have is pulled by the engine, and it is
// told how far that is. What it runs by itself can be asked for.
func TestPull(t *testing.T) {
	need(t)
	noise := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	r := serve(t, store.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{"sh", "-c"}, Cmd: []string{"echo $0 works", "it"}},
		append(testimage.Busybox(t), testimage.File{Name: "noise", Body: string(noise)})...)
	shown := make(chan struct{})
	content := testimage.Layer(t, append(testimage.Busybox(t), testimage.File{Name: "noise", Body: string(noise)})...)
	r.layer = func(w http.ResponseWriter, req *http.Request) {
		rest := content
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		for chunk := range slices.Chunk(content[:4<<20], 64<<10) {
			n, err := w.Write(chunk)
			if rest = rest[n:]; err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select { // so slow that there is something to tell
			case <-shown:
			case <-req.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		_, _ = w.Write(rest)
	}
	var said []string
	rt := shimtest.Backend(func(opts *local.Options) (*local.Runtime, error) {
		opts.Progress = func(text string) {
			if said = append(said, text); strings.Contains(text, " MB of 1") && len(said) < 1000 {
				select {
				case <-shown:
				default:
					close(shown)
				}
			}
		}
		return backend(opts)
	}).Fresh(t)
	config := &runtime.SandboxConfig{Image: r.name()}
	command, err := rt.ImageCommand(t.Context(), config)
	if err != nil || strings.Join(command, "|") != "sh|-c|echo $0 works|it" || !has(t, r.name()) {
		t.Fatalf(`ImageCommand: got command %q, err %v; want err == nil and strings.Join(command, "|") == "sh|-c|echo $0 works|it" and has(t, r.name())`,
			command, err)
	}
	select {
	case <-shown:
	default:
		t.Errorf("it is not told how far it is: %q", said)
	}
	if len(said) == 0 || said[0] != "pull "+r.name() {
		t.Errorf("it is said: %q", said)
	}
	s, err := rt.Create(t.Context(), config)
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil || s.Image != r.name() {
		t.Fatalf("Create: got s %+v, err %v; want err == nil and s.Image == r.name()", s, err)
	}
	result, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: command})
	if err != nil || string(result.Stdout) != "it works\n" {
		t.Errorf("Exec: got result %+v, err %v; want err == nil and result.Stdout == %q", result, err, "it works\n")
	}
	destroy(t, rt, s.ID)
}

// Of a pull that fails nothing is left, and it is said why.
func TestPullFails(t *testing.T) {
	need(t)
	rt := fresh(t)
	r := serve(t, store.Config{}, testimage.File{Name: "file", Body: "content"})
	for what, layer := range map[string]http.HandlerFunc{
		"verification failed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(testimage.Layer(t, testimage.File{Name: "other", Body: "content"}))
		},
		"denied": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"errors":[{"code":"DENIED","message":"not you"}]}`))
		},
	} {
		r.layer = layer
		_, err := rt.Create(t.Context(), &runtime.SandboxConfig{Image: r.name()})
		if !errors.Is(err, runtime.ErrNotFound) || !strings.Contains(err.Error(), r.name()) || !strings.Contains(err.Error(), what) {
			t.Errorf("Create: got what %s, err %v; want err is runtime.ErrNotFound and err.Error() contains r.name() and err.Error() contains %v",
				what, err, what)
		}
		none(t, rt)
		if has(t, r.name()) {
			t.Errorf("%s: the engine has it", what)
		}
	}
}

// A pull that no caller waits for any more is canceled.
func TestPullCanceled(t *testing.T) {
	need(t)
	rt := fresh(t)
	r := serve(t, store.Config{}, testimage.File{Name: "file", Body: "content"})
	begun, over := make(chan struct{}), make(chan struct{})
	r.layer = func(w http.ResponseWriter, req *http.Request) {
		defer close(over)
		w.Header().Set("Content-Length", strconv.Itoa(1<<30))
		for first := true; ; first = false {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			if first {
				close(begun)
			}
			select { // an engine that reads no more notices when there is something to read
			case <-req.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := rt.Create(ctx, &runtime.SandboxConfig{Image: r.name()})
		failed <- err
	}()
	wait.Receive(t, "the pull begins", begun)
	cancel()
	if err := wait.Receive(t, "the end of Create", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("Create returns %v, want %v", err, context.Canceled)
	}
	wait.Receive(t, "the engine gives it up", over)
	none(t, rt)
	if has(t, r.name()) {
		t.Error("the engine has it")
	}
	if out, _ := exec.Command("pgrep", "-f", "wolffia-oci image.*"+rt.State).Output(); len(out) > 0 {
		t.Errorf("it goes on: %s", out)
	}
}
