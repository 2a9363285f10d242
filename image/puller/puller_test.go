package puller_test

import (
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

// A host is a registry with one image of one layer, which it can hold back.
type host struct {
	name  string
	blobs atomic.Int32
	// held, if it is there, gets a value when half of a layer was sent; the rest
	// comes when go on is closed.
	held    chan struct{}
	proceed chan struct{}
}

func newHost(t *testing.T, hold bool) *host {
	t.Helper()
	h := &host{held: make(chan struct{}, 100), proceed: make(chan struct{})}
	reg := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	random := make([]byte, 4<<20)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(random)
	layer := testimage.Layer(t, testimage.File{Name: "d/"}, testimage.File{Name: "d/random", Body: string(random)}, testimage.File{Name: "end", Body: "end"})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+testimage.Digest(layer)) {
			h.blobs.Add(1)
			if hold {
				w.Header().Set("Content-Length", "0")
				w.Header().Del("Content-Length")
				_, _ = w.Write(layer[:len(layer)/2])
				_ = http.NewResponseController(w).Flush()
				h.held <- struct{}{}
				select {
				case <-h.proceed:
				case <-r.Context().Done():
					return
				}
				_, _ = w.Write(layer[len(layer)/2:])
				return
			}
		}
		reg.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(layer, types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	h.name = strings.TrimPrefix(s.URL, "http://") + "/x:1"
	ref, err := name.ParseReference(h.name)
	if err == nil {
		err = remote.Write(ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func state(t *testing.T) string {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	dir, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return dir.Path()
}

// trees lists the images that are there, whole or not.
func trees(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "images"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func program(t *testing.T) string {
	t.Helper()
	return filepath.Join(testbin.Dir(t), puller.Program)
}

// Ten processes pull one image: one does the work.
func TestTenPull(t *testing.T) {
	h, dir := newHost(t, false), state(t)
	p := program(t)
	var all sync.WaitGroup
	var ids sync.Map
	for range 10 {
		all.Go(func() {
			id, err := puller.Pull(t.Context(), p, &puller.Request{StateDir: dir, Name: h.name})
			if err != nil {
				t.Error(err)
			}
			ids.Store(id, true)
		})
	}
	all.Wait()
	if n := h.blobs.Load(); n != 1 {
		t.Errorf("the layer was fetched %d times", n)
	}
	if got := trees(t, dir); len(got) != 1 {
		t.Errorf("trees: got %q; want len(got) == 1", got)
	}
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d ids", n)
	}
}

// One that is killed half-way leaves what the next pull, or prune, takes away;
// who waits for it goes on at once.
func TestKilledHalfWay(t *testing.T) {
	h, dir := newHost(t, true), state(t)
	start := func() *exec.Cmd {
		cmd := exec.Command(program(t), "pull", dir, "0", h.name)
		in, err := cmd.StdinPipe()
		if err == nil {
			t.Cleanup(func() { _ = in.Close() })
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.WriteString(in, "\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		wait.Receive(t, "half of the layer", h.held)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	kill(start())
	if got := trees(t, dir); len(got) != 1 || !strings.HasSuffix(got[0], ".new") {
		t.Fatalf("there is %q", got)
	}
	if _, err := store.Open(dir).Prune(t.Context(), false); err != nil {
		t.Error(err)
	}
	if got := trees(t, dir); len(got) != 0 {
		t.Errorf("prune leaves %q", got)
	}
	first := start()
	waiting := make(chan error)
	go func() {
		_, err := puller.Pull(t.Context(), program(t), &puller.Request{StateDir: dir, Name: h.name})
		waiting <- err
	}()
	kill(first)
	close(h.proceed)
	if err := wait.Receive(t, "the second pull", waiting); err != nil {
		t.Error(err)
	}
	if got := trees(t, dir); len(got) != 1 || strings.Contains(got[0], ".") {
		t.Errorf("there is %q", got)
	}
}

// A caller that gives up, or is killed, leaves nothing.
func TestGivenUp(t *testing.T) {
	h, dir := newHost(t, true), state(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := puller.Pull(ctx, program(t), &puller.Request{StateDir: dir, Name: h.name})
		done <- err
	}()
	wait.Receive(t, "half of the layer", h.held)
	cancel()
	if err := wait.Receive(t, "the end", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := trees(t, dir); len(got) != 0 {
		t.Errorf("it leaves %q", got)
	}
	for what, end := range map[string]func(cmd *exec.Cmd, in io.Closer){
		"its input ends": func(_ *exec.Cmd, in io.Closer) { _ = in.Close() },
		"SIGTERM":        func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":         func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGINT) },
	} {
		cmd := exec.Command(program(t), "pull", dir, "0", h.name)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.WriteString(in, "\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		wait.Receive(t, "half of the layer", h.held)
		end(cmd, in)
		_ = cmd.Wait()
		_ = in.Close()
		if got := trees(t, dir); len(got) != 0 {
			t.Errorf("%s: it leaves %q", what, got)
		}
	}
}

// Errors keep their class; a program that is none, or says nothing, is one.
func TestErrors(t *testing.T) {
	dir := state(t)
	for name, class := range map[string]error{"x:": runtime.ErrInvalid, "oci:/missing": runtime.ErrNotFound, "127.0.0.1:1/x": runtime.ErrUnavailable} {
		_, err := puller.Pull(t.Context(), program(t), &puller.Request{StateDir: dir, Name: name})
		if runtime.Class(err) != class {
			t.Errorf("%s: %v, want one of class %v", name, err, class)
		}
	}
	for _, p := range []string{"/bin/false", "/bin/true", "/missing"} {
		_, err := puller.Pull(t.Context(), p, &puller.Request{StateDir: dir, Name: "x"})
		if runtime.Class(err) != runtime.ErrUnavailable {
			t.Errorf("%s: got err %v; want runtime.Class(err) == runtime.ErrUnavailable", p, err)
		}
	}
}
