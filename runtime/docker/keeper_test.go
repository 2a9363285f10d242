package docker_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// between puts somebody between wolffia and the engine, who sees each request
// first and passes it on when it returns, whatever has become of who asked.
func between(t *testing.T, see func(r *http.Request)) {
	t.Helper()
	engine := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	dir, err := os.MkdirTemp("", "proxy") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		FlushInterval: -1,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", engine)
		}},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // who asked is gone
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" && r.ContentLength > 0 {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
			defer cancel()
			r = r.WithContext(ctx)
		}
		see(r)
		proxy.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	t.Setenv("DOCKER_HOST", "unix://"+listener.Addr().String())
}

// A keeper that is killed while the engine makes the container: what comes to be
// afterwards is removed all the same, by the caller that destroys the sandbox, or starts it
// again.
func TestKilledKeeperInTheMaking(t *testing.T) {
	need(t)
	for _, again := range []bool{false, true} {
		var once sync.Once
		var id string
		waiting := make(chan struct{})
		engine := os.Getenv("DOCKER_HOST")
		between(t, func(r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/containers/create"):
				once.Do(func() {
					if err := syscall.Kill(partsOf(t, id)["wolffia-oci keep"], syscall.SIGKILL); err != nil {
						t.Error(err)
					}
					select {
					case <-waiting:
					case <-time.After(wait.Limit):
						t.Error("no process waits for the container")
					}
				})
			case strings.HasSuffix(r.URL.Path, "/events"):
				// Passed on before the other is: that takes longer.
				time.AfterFunc(100*time.Millisecond, func() { close(waiting) })
			}
		})
		rt := fresh(t)
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		id = s.ID
		if err := rt.Start(t.Context(), s.ID); err == nil || !strings.Contains(err.Error(), "keeper") {
			t.Errorf("start: %v", err)
		}
		if again {
			if err := rt.Start(t.Context(), s.ID); err != nil {
				t.Error(err)
			}
			sh(t, rt, s.ID, "true")
		}
		t.Setenv("DOCKER_HOST", engine)
		destroy(t, rt, s.ID)
	}
}

// What was never made is not waited for for ever.
func TestKilledKeeperBeforeTheMaking(t *testing.T) {
	need(t)
	rt := fresh(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(rt.State, "sandboxes", s.ID, "engine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in-engine"), []byte("making"), 0o600); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
}

// A keeper that hangs is killed, and others do its work.
func TestHungKeeper(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	shimtest.Stop(t, partsOf(t, s.ID)["wolffia-oci keep"])
	begun := time.Now()
	destroy(t, rt, s.ID)
	t.Logf("it took %v", time.Since(begun)) // two limits of 10 s
}
