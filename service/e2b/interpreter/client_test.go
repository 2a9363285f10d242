package interpreter_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/service"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// A world is a service with a sandbox.
type world struct {
	*servetest.World
	id, envd, traffic string // of the sandbox: its tokens
}

func newWorld(t *testing.T) *world {
	w := &world{World: servetest.New(t, "0123456789abcdef-all\n")}
	s, _, err := w.Service.Create(w.Ctx, &service.Params{})
	w.OK(err)
	w.id, w.envd, w.traffic = s.ID, w.Service.Token("e2b envd", s.ID), w.Service.Token("e2b traffic", s.ID)
	return w
}

// drive runs a program in a directory, with the variables that point E2B's SDKs to the service.
func (w *world) drive(t *testing.T, dir, env string, args ...string) {
	t.Helper()
	text, err := run(t, dir, []string{"E2B_SANDBOX_URL=http://" + w.Address, env}, append(args, w.id, w.envd, w.traffic)...)
	if err != nil {
		t.Errorf("%v: %v\n%s\n%s", args, err, text, w.Log.String())
	}
}

func run(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	const limit = 4 * time.Minute // a guard against a hang
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// E2B's SDK of code interpreters for JavaScript drives a sandbox.
func TestJavaScript(t *testing.T) {
	testenv.Tools(t, "node", "npm", "python3")
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "drive.mjs"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err := run(t, dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		testenv.Lacks(t, "the package registry of npm", "npm ci: "+err.Error()+"\n"+text)
	}
	newWorld(t).drive(t, dir, "", "node", "drive.mjs")
}

// E2B's SDK of code interpreters for Python drives a sandbox.
func TestPython(t *testing.T) {
	testenv.Tools(t, "python3")
	dir := t.TempDir()
	text, err := run(t, ".", nil, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
		"--only-binary", ":all:", "--target", dir, "-r", filepath.Join("testdata", "requirements.txt"))
	if err != nil {
		testenv.Lacks(t, "pip and the package registry of Python", "pip install: "+err.Error()+"\n"+text)
	}
	newWorld(t).drive(t, ".", "PYTHONPATH="+dir, "python3", filepath.Join("testdata", "drive.py"))
}

// Without a token of the sandbox its code interpreter runs nothing.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	other, _, err := w.Service.Create(w.Ctx, &service.Params{})
	w.OK(err)
	for _, token := range []string{"", "x", w.Service.Token("e2b traffic", other.ID), w.Service.Token("e2b envd", other.ID)} {
		status, _, body := w.Do(http.MethodPost, "/execute", strings.NewReader(`{"code":"1"}`), "E2b-Sandbox-Id", w.id,
			"E2b-Sandbox-Port", "49999", "E2b-Traffic-Access-Token", token, "X-Access-Token", token)
		if status != http.StatusForbidden {
			t.Errorf("token %q: %d %s, want %d", token, status, body, http.StatusForbidden)
		}
	}
	status, _, body := w.Do(http.MethodGet, "/health", nil, "E2b-Sandbox-Id", w.id, "E2b-Sandbox-Port", "49999",
		"E2b-Traffic-Access-Token", w.traffic)
	if status != http.StatusOK || body != `"OK"` {
		t.Errorf("/health: %d %s", status, body)
	}
}
