package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
	"wolffia/runtime/kubernetes"
	"wolffia/service"
	"wolffia/service/registry"
)

// These tests need a cluster:
//
//	sudo scripts/kube run go test ./runtime/kubernetes

func TestMain(m *testing.M) { shimtest.Main(m.Run) }

var backend = shimtest.Of(kubernetes.Backend())

var ann = registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "ann@example.com"}

// need skips the test without a cluster, and returns an image that its nodes have.
func need(t testing.TB) (image string) {
	t.Helper()
	if image = os.Getenv("WOLFFIA_TEST_KUBE"); image == "" {
		t.Skip("there is no cluster: make kube build, then scripts/kube run go test ./runtime/kubernetes, as root")
	}
	return image
}

// files returns the directory of a cluster of scripts/kube, and skips the test in another one.
func files(t testing.TB) string {
	t.Helper()
	dir := filepath.Dir(os.Getenv("KUBECONFIG"))
	if _, err := os.Stat(filepath.Join(dir, "kill")); err != nil {
		t.Skip("the cluster is not one of scripts/kube")
	}
	return dir
}

// api makes a request as the administrator of a cluster of scripts/kube, with an object as JSON.
func api(t testing.TB, method, path, object string) (answered string) {
	t.Helper()
	pki := filepath.Join(files(t), "pki")
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}, DisableKeepAlives: true},
		Timeout:   wait.Limit,
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "https://127.0.0.1:6443"+path, strings.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s, %s, %v", method, path, answer.Status, text, err)
	}
	return string(text)
}

// fresh is a runtime over an empty state directory. In the end that must be empty, as must be the
// cluster.
func fresh(t testing.TB) *shimtest.Runtime {
	t.Helper()
	rt := backend.Fresh(t)
	t.Cleanup(func() {
		lost, err := rt.Lost(context.Background())
		if err != nil || len(lost) > 0 {
			t.Errorf("left in the cluster: %v, %v", lost, err)
		}
	})
	return rt
}

// start starts a sandbox of ann's.
func start(t testing.TB, rt *shimtest.Runtime, c *runtime.SandboxConfig) string {
	t.Helper()
	c.Image = need(t)
	service.SetOwner(c, ann, false)
	s, err := rt.Create(t.Context(), c)
	if err == nil {
		t.Cleanup(func() {
			if t.Failed() { // else the test has removed it
				_ = rt.Destroy(context.Background(), s.ID)
			}
		})
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func destroy(t testing.TB, rt *shimtest.Runtime, id string) {
	t.Helper()
	if err := rt.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// sh runs a command that must succeed.
func sh(t testing.TB, rt *shimtest.Runtime, id, script string) string {
	t.Helper()
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"sh", "-c", script}})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s: %+v, %v", script, r, err)
	}
	return string(r.Stdout)
}

func dies(t testing.TB, rt *shimtest.Runtime, id string) {
	t.Helper()
	wait.Equal(t, "the state of "+id, runtime.StateDead, func() runtime.State {
		s, err := rt.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	})
}

// Commands run in a pod, which has no right and no secret of the cluster. A stop ends the pod, and a
// start brings another.
func TestPod(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	id := start(t, rt, &runtime.SandboxConfig{Name: "box"})
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"sh", "-c", "cat; echo err >&2; exit 5"}, Stdin: strings.NewReader("in")})
	if err != nil || r.ExitCode != 5 || string(r.Stdout) != "in" || string(r.Stderr) != "err\n" {
		t.Errorf("%+v, %v", r, err)
	}
	if got := sh(t, rt, id, "grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t\\n'; id -u | grep -vx 0 >/dev/null && ls /var/run/secrets 2>/dev/null; env | grep KUBERNETES; true"); got != "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2" {
		t.Errorf("the pod has %q", got)
	}
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	sh(t, rt, id, "echo again")
	var out countWriter
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sh", "-c", "head -c 10000000 /dev/zero"}})
	if err == nil {
		_, err = io.Copy(&out, p.Stdout())
	}
	if err != nil || out != 10000000 {
		t.Errorf("%d bytes of output, %v", out, err)
	}
	destroy(t, rt, id)
}

type countWriter int

func (w *countWriter) Write(b []byte) (int, error) {
	*w += countWriter(len(b))
	return len(b), nil
}

// A session outlives its client.
func TestSession(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	id := start(t, rt, &runtime.SandboxConfig{})
	in := func(rt *shimtest.Runtime, line string) string {
		r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{line}, Session: "s"})
		if err != nil || r.ExitCode != 0 {
			t.Fatalf("%s: %+v, %v", line, r, err)
		}
		return string(r.Stdout)
	}
	if _, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	in(rt, "X=kept; cd /tmp")
	again := backend.Reopen(t, rt)
	if got := in(again, "echo $X $PWD"); got != "kept /tmp\n" {
		t.Errorf("the session has %q", got)
	}
	destroy(t, again, id)
}

// A killed client leaves nothing: what was bound to it is gone from the cluster, too.
func TestKilledClient(t *testing.T) {
	image := need(t)
	testenv.Root(t)
	rt := fresh(t)
	cmd := exec.Command(filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", rt.State, "run", "--runtime", kubernetes.Name, "--image", image, "--no-codebase", "--", "sh", "-c", "echo up; sleep 1000")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(out, b); err != nil || string(b) != "up\n" {
		t.Fatalf("%q, %v", b, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wait.Until(t, "the sandbox is gone", func() bool {
		all, err := rt.List(t.Context())
		return err == nil && len(all) == 0
	})
}

// The owner of a sandbox is known after a kill of its client: from the record, and if that was
// deleted from the cluster alone. So it can be removed.
func TestOwner(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	other := fresh(t)
	id := start(t, rt, &runtime.SandboxConfig{Name: "named"})
	again := backend.Reopen(t, rt)
	if s, err := again.Get(t.Context(), id); err != nil || s.State != runtime.StateRunning {
		t.Errorf("%+v, %v", s, err)
	}
	if lost, err := service.Lost(t.Context(), again); err != nil || len(lost) > 0 {
		t.Errorf("lost before its time: %+v, %v", lost, err)
	}
	shimtest.Kill(t, rt.State, id)
	if err := rmtree.RemovePath(filepath.Join(rt.State, "sandboxes"), id); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Get(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
		t.Fatalf("it is not forgotten: %v", err)
	}
	lost, err := service.Lost(t.Context(), again)
	if err != nil || len(lost) != 1 || lost[0].Owner != ann || lost[0].SandboxID != id {
		t.Errorf("lost: %+v, %v", lost, err)
	}
	if lost, err := service.Lost(t.Context(), other); err != nil || len(lost) > 0 {
		t.Errorf("another state directory's: %+v, %v", lost, err)
	}
	destroy(t, again, id)
}

// The cluster deletes a sandbox with a time to live whose processes on the host are gone.
func TestDeadline(t *testing.T) {
	need(t)
	testenv.Root(t)
	rt := fresh(t)
	id := start(t, rt, &runtime.SandboxConfig{TTL: time.Hour})
	const objects = "/apis/agents.x-k8s.io/v1alpha1/namespaces/default/sandboxes"
	spec := func() (s struct{ ShutdownTime, ShutdownPolicy string }) {
		o := struct{ Spec any }{&s}
		if err := json.Unmarshal([]byte(api(t, http.MethodGet, objects+"/wolffia-"+id, "")), &o); err != nil {
			t.Fatal(err)
		}
		return s
	}
	ends := func(of time.Duration) bool {
		at, err := time.Parse(time.RFC3339, spec().ShutdownTime)
		return err == nil && time.Until(at)-of > 4*time.Minute && time.Until(at)-of < 6*time.Minute
	}
	if s := spec(); !ends(time.Hour) || s.ShutdownPolicy != "Delete" {
		t.Errorf("created with %+v", s)
	}
	for _, ttl := range []time.Duration{3 * time.Hour, 0} {
		if _, err := rt.Renew(t.Context(), id, ttl); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the new time in the cluster", func() bool { return ttl == 0 && spec().ShutdownTime == "" || ttl > 0 && ends(ttl) })
	}
	shimtest.Kill(t, rt.State, id)
	dies(t, rt, id)
	if _, err := rt.Renew(t.Context(), id, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if !ends(2 * time.Hour) {
		t.Errorf("attached with %+v", spec())
	}
	shimtest.Kill(t, rt.State, id)
	api(t, http.MethodPatch, objects+"/wolffia-"+id, `{"spec":{"shutdownTime":"`+time.Now().UTC().Add(2*time.Second).Format(time.RFC3339)+`"}}`)
	wait.Until(t, "the cluster has deleted it", func() bool {
		return !strings.Contains(api(t, http.MethodGet, objects, ""), id) && !strings.Contains(api(t, http.MethodGet, "/api/v1/namespaces/default/pods", ""), id)
	})
	destroy(t, rt, id)
}

// What a cluster does not do is said in its words.
func TestFails(t *testing.T) {
	image := need(t)
	testenv.Root(t)
	rt := fresh(t)
	for want, c := range map[string]*runtime.SandboxConfig{
		"docker.io/wolffia/none:1": {Image: "docker.io/wolffia/none:1"},
		`namespace "nosuch"`:       {Image: image, Kubernetes: &runtime.KubernetesConfig{Config: os.Getenv("KUBECONFIG"), Namespace: "nosuch", Guest: "g:1"}},
		`RuntimeClass "nosuch"`:    {Image: image, Kubernetes: &runtime.KubernetesConfig{Config: os.Getenv("KUBECONFIG"), RuntimeClass: "nosuch", Guest: "g:1"}},
	} {
		s, err := rt.Create(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		destroy(t, rt, s.ID)
	}
}
