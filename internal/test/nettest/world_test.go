package nettest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/testbin"
	"wolffia/runtime"
)

// slow bounds one command: a guard against a hang.
const slow = 3 * time.Minute

// A world is the test's servers, and the place of its sandboxes.
type world struct {
	names     *nameServer
	visits    *visits
	ssh       string // configuration of the SSH server; "": there is none
	repo      string // path of the git repository
	integrity npmIntegrity

	wolffia  string
	conf     string // appears in sandboxes at /conf
	codebase string
	env      []string // of wolffia
}

// newWorld starts the servers, until the end of the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	// The user that root drops to must get here.
	dir := t.TempDir()
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{visits: new(visits), conf: filepath.Join(dir, "conf"), codebase: filepath.Join(dir, "code"), wolffia: filepath.Join(testbin.Dir(t), "wolffia")}
	keys := filepath.Join(dir, "keys")
	for _, d := range []string{w.conf, w.codebase, keys, filepath.Join(dir, "home")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // a sandbox never runs as root
		if err := os.Chown(w.codebase, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			w.env = append(w.env, v)
		}
	}
	cache, err := os.UserCacheDir() // where make runsc has put it
	if err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "HOME="+filepath.Join(dir, "home"), "XDG_CACHE_HOME="+cache, "WOLFFIA_STATE_DIR="+filepath.Join(dir, "state"))
	w.names = serveNames(t)
	ca := newAuthority(t)
	w.write(t, "ca", string(ca.pem))
	mux := http.NewServeMux()
	pages(mux)
	w.integrity = registries(t, mux)
	w.repo = serveGit(t, dir, mux)
	if w.ssh = newSSH(t, keys); w.ssh != "" {
		for _, name := range []string{"user", "known_hosts"} {
			text, err := os.ReadFile(filepath.Join(keys, name))
			if err != nil {
				t.Fatal(err)
			}
			w.write(t, name, string(text))
		}
	}
	for name, text := range clientFiles(w.integrity) {
		w.write(t, name, text)
	}
	serveSite(t, ca, w.visits, w.ssh, sealing(mux))
	return w
}

// write adds a file to what sandboxes see at /conf.
func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.conf, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// call runs wolffia and returns its exit code and what it prints.
func (w *world) call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), slow) // in cleanups too
	defer cancel()
	cmd := exec.CommandContext(ctx, w.wolffia, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.codebase, w.env, 10*time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		t.Fatalf("wolffia %q: %v: %s%s", args, err, out.String(), said.String())
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// must is call of what has to succeed.
func (w *world) must(t *testing.T, args ...string) string {
	t.Helper()
	out, said, code := w.call(t, args...)
	if code != 0 {
		t.Fatalf("wolffia %q: exit code %d: %s", args, code, said)
	}
	return strings.TrimSpace(out)
}

// A sandbox is one of the test's.
type sandbox struct {
	*world
	id string
}

// certificates are the variables by which clients trust the test's authority.
var certificates = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO",
}

// create creates and starts a sandbox until the end of the test.
func (w *world) create(t *testing.T, backend string, flags ...string) *sandbox {
	t.Helper()
	args := []string{"create", "--quiet", "--no-config", "--runtime", backend, "--mount", w.conf + ":/conf", "-e", "SITE=" + site, "-e", "LOGIN=" + login(t)}
	for _, name := range certificates {
		args = append(args, "-e", name+"=/conf/ca")
	}
	s := &sandbox{w, w.must(t, append(args, flags...)...)}
	t.Cleanup(func() { s.must(t, "rm", "-f", s.id) })
	return s
}

func login(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A result is what exec --json prints, as far as these tests need it.
type result struct {
	ExitCode    int               `json:"exitCode"`
	Stdout      string            `json:"stdout"`
	Stderr      string            `json:"stderr"`
	StartError  string            `json:"startError"`
	Refused     []runtime.Refusal `json:"refused"`
	RefusedMore int               `json:"refusedMore"`
}

func (r *result) String() string {
	return fmt.Sprintf("exit code %d %s\n%s%s\nrefused: %+v and %d more", r.ExitCode, r.StartError, r.Stdout, r.Stderr, r.Refused, r.RefusedMore)
}

// sh runs a shell script in the sandbox with variables, NAME=VALUE.
func (s *sandbox) sh(t *testing.T, script string, vars ...string) *result {
	t.Helper()
	args := []string{"exec", "--json", "--timeout", "2m"}
	for _, v := range vars {
		args = append(args, "-e", v)
	}
	out, said, _ := s.call(t, append(args, s.id, "--", "sh", "-c", script)...)
	r := new(result)
	if err := json.Unmarshal([]byte(out), r); err != nil {
		t.Fatalf("exec --json prints %q, %s: %v", out, said, err)
	}
	return r
}

// refused returns the first refusal for which so is true.
func (r *result) refused(so func(*runtime.Refusal) bool) *runtime.Refusal {
	for i := range r.Refused {
		if so(&r.Refused[i]) {
			return &r.Refused[i]
		}
	}
	return nil
}
