package interpreter_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/packaged"
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
func (w *world) drive(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	env = append(env, "E2B_SANDBOX_URL=http://"+w.Address)
	text, err := packaged.Run(t, dir, env, args[0], append(args[1:], w.id, w.envd, w.traffic)...)
	if err != nil {
		t.Errorf("%v: %v\n%s\n%s", args, err, text, w.Log.String())
	}
}

// E2B's SDK of code interpreters for JavaScript drives a sandbox.
func TestJavaScript(t *testing.T) {
	testenv.Tools(t, "python3")
	dir := packaged.Node(t, "testdata")
	newWorld(t).drive(t, dir, nil, "node", "drive.mjs")
}

// E2B's SDK of code interpreters for Python drives a sandbox.
func TestPython(t *testing.T) {
	env := packaged.Python(t, filepath.Join("testdata", "requirements.txt"))
	newWorld(t).drive(t, "", env, "python3", filepath.Join("testdata", "drive.py"))
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

// With IPython, matplotlib and pandas inside, cells have magics, tables and charts. The versions are in
// testdata/charts.txt.
func TestCharts(t *testing.T) {
	testenv.Soak(t, "it installs IPython, matplotlib and pandas")
	outside := packaged.Python(t, filepath.Join("testdata", "requirements.txt"))
	w := &world{World: servetest.New(t, "0123456789abcdef-all\n")}
	packages := filepath.Join(w.Codebase, "packages")
	packaged.PIP(t, "python3", nil, packages, "--only-binary", ":all:", "-r", filepath.Join("testdata", "charts.txt"))
	w.OK(os.Chmod(packages, 0o755))
	s, _, err := w.Service.Create(w.Ctx, &service.Params{Env: map[string]string{"PYTHONPATH": "/workspace/packages", "MPLCONFIGDIR": "/tmp"}})
	w.OK(err)
	w.id, w.envd, w.traffic = s.ID, w.Service.Token("e2b envd", s.ID), w.Service.Token("e2b traffic", s.ID)
	w.drive(t, "", outside, "python3", filepath.Join("testdata", "charts.py"))
}
