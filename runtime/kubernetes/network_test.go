package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/network"
	"wolffia/runtime"
)

// listen listens in the client's network, and answers each connection with a text.
func listen(t testing.TB, text string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the test
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// freePort returns a port of the client's at which nobody listens.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// get returns what a connection that dial makes answers to a request.
func get(t testing.TB, what string, dial func(context.Context) (net.Conn, error)) string {
	t.Helper()
	c := http.Client{Timeout: wait.Limit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	r, err := c.Get("http://server/index.html")
	if err != nil {
		return what + ": " + err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return string(b)
}

// The client reaches servers in the pod, and the pod the services of the client that are exposed.
func TestPorts(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	published, own := freePort(t), listen(t, "the client's")
	id := start(t, rt, &runtime.SandboxConfig{
		Network: runtime.NetworkNone, Publish: []runtime.Publish{{Local: published, Port: 8000}}, Expose: []runtime.Expose{{HostPort: own, Port: 9000}},
	})
	sh(t, rt, id, "mkdir /tmp/w; echo from the pod >/tmp/w/index.html; httpd -p 127.0.0.1:8000 -h /tmp/w")
	if got := get(t, "published", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(published)))
	}); got != "from the pod\n" {
		t.Errorf("published: %q", got)
	}
	if got := get(t, "dialled", func(ctx context.Context) (net.Conn, error) { return rt.DialPort(ctx, id, 8000) }); got != "from the pod\n" {
		t.Errorf("dialled: %q", got)
	}
	if got := sh(t, rt, id, "wget -qO- http://127.0.0.1:9000/"); got != "the client's" {
		t.Errorf("exposed: %q", got)
	}
	if c, err := rt.DialPort(t.Context(), id, 8001); err == nil {
		t.Errorf("a port without a server: %v", c.RemoteAddr())
	}
	destroy(t, rt, id)
}

// A pod reaches the names that are allowed, by the client, and no others, and who asks may be told.
// Its own network stays closed.
func TestFiltered(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	port := listen(t, "reached")
	id := start(t, rt, &runtime.SandboxConfig{
		Network: runtime.NetworkFiltered, Ask: []string{runtime.AskNetwork},
		Egress: &network.Policy{
			Allow: []string{fmt.Sprintf("allowed.example:%d", port)},
			Hosts: map[string]string{"allowed.example": "127.0.0.1", "asked.example": "127.0.0.1"},
		},
	})
	fetch := func(name string) string { // a static busybox finds no name itself
		return fmt.Sprintf("wget -Y off -qO- http://$(nslookup -type=a %s | sed -n '/^Name/,$ s/^Address: //p'):%d/ 2>&1; true", name, port)
	}
	for what, script := range map[string]string{
		"by its name":  fetch("allowed.example"),
		"by the proxy": fmt.Sprintf("http_proxy=http://127.64.0.1:3128 wget -qO- http://allowed.example:%d/", port),
	} {
		if got := sh(t, rt, id, script); got != "reached" {
			t.Errorf("%s: %q", what, got)
		}
	}
	for _, allow := range []bool{false, true} {
		answered := make(chan error, 1)
		go func() { // ends with the answer
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			done := errors.New("answered")
			err := rt.Questions(ctx, id, func(all []runtime.Question) error {
				if len(all) == 0 {
					return nil
				}
				if want := fmt.Sprintf("asked.example:%d", port); all[0].Host != want {
					return fmt.Errorf("the question is for %s, want %s", all[0].Host, want)
				}
				return errors.Join(rt.Answer(ctx, id, &runtime.Answer{Question: all[0].ID, Allow: allow}), done)
			})
			if errors.Is(err, done) {
				err = nil
			}
			answered <- err
		}()
		if got := sh(t, rt, id, fetch("asked.example")); (got == "reached") != allow {
			t.Errorf("answer %v: %q", allow, got)
		}
		if err := <-answered; err != nil {
			t.Errorf("answer %v: %v", allow, err)
		}
	}
	log, _, err := rt.Audit(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	refused := false
	for err == nil {
		var r audit.Record
		if r, err = log.Next(); err == nil && r.Host != nil && r.Host.Name == "asked.example" && r.Remedy != "" {
			refused = true
		}
	}
	if !refused {
		t.Errorf("the audit has no refusal of asked.example (%v)", err)
	}
	// No way past the client.
	if got := sh(t, rt, id, "wget -Y off -qO- http://10.200.0.1:10250/ 2>&1; true"); !strings.Contains(got, "unreachable") {
		t.Errorf("the node: %q", got)
	}
	// A server inside, at a port that no name is allowed for.
	sh(t, rt, id, "mkdir /tmp/w; echo inside >/tmp/w/index.html; httpd -p 127.0.0.1:8000 -h /tmp/w; wget -Y off -qO- http://127.0.0.1:8000/ | grep -x inside")
	destroy(t, rt, id)
}

// PID 1 does not start where its node can be reached.
func TestOpenNetwork(t *testing.T) {
	image := need(t)
	testenv.Root(t)
	plugins := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "cni")
	if _, err := os.Stat(plugins); err != nil {
		t.Skip("the cluster is not one of scripts/kube")
	}
	rt := fresh(t)
	open := filepath.Join(plugins, "00-open.conflist") // the first name counts
	defer os.Remove(open)
	if err := os.WriteFile(open, []byte(`{"cniVersion":"0.4.0","name":"open","plugins":[{"type":"ptp",
		"ipam":{"type":"host-local","dataDir":"/run/ipam","subnet":"10.89.0.0/16","routes":[{"dst":"0.0.0.0/0"}]}}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, network := range []runtime.Network{runtime.NetworkNone, runtime.NetworkFiltered} {
		neverStarts(t, rt, &runtime.SandboxConfig{Image: image, Network: network}, "the pod reaches 10.200.0.1:10250: its network is open")
	}
}

// neverStarts tests that a sandbox does not start, once the cluster has read what was changed.
func neverStarts(t *testing.T, rt *shimtest.Runtime, c *runtime.SandboxConfig, want string) {
	t.Helper()
	s, err := rt.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "containerd has read it", func() bool {
		err = rt.Start(t.Context(), s.ID)
		if err == nil {
			err = rt.Stop(t.Context(), s.ID)
			return err != nil
		}
		return true
	})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Start with network %s: %v", c.Network, err)
	}
	destroy(t, rt, s.ID)
}
