// Package integrations runs the tests of the packages in integrations against a real wolffia serve, and the frameworks that they are for.
package integrations

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
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
)

const (
	packages = "../../../integrations"
	key      = "0123456789abcdef-all"
	limit    = 8 * time.Minute // of a program: a guard against a hang
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// The thin client, over TCP with a key and over a unix socket. Its types are checked too.
func TestPython(t *testing.T) {
	env := newPython(t, "python")
	w := servetest.NewProcess(t, key+"\n")
	service := []string{"WOLFFIA_ADDRESS=http://" + w.Address, "WOLFFIA_API_KEY=" + key}
	env.pytest(t, service...)
	env.example(t, service...)
	socket := filepath.Join(t.TempDir(), "s", "sock")
	servetest.NewProcess(t, "", "--listen", "unix:"+socket)
	env.pytest(t, "WOLFFIA_ADDRESS=unix:"+socket)
	env.run(t, nil, "-m", "mypy", "--strict", "wolffia", "generate.py", "tests")
}

// LangChain's standard tests of a sandbox for deepagents, and an agent with a model of its own fakes.
func TestDeepagents(t *testing.T) { framework(t, "deepagents") }

const rest = "deepagents stands for the frameworks of Python in each run"

// Inspect's own checks of a sandbox, and a task with its mock model.
func TestInspect(t *testing.T) {
	testenv.Soak(t, rest)
	framework(t, "inspect_ai")
}

// Sessions of OpenAI's Agents SDK, and an agent.
func TestOpenAIAgents(t *testing.T) {
	testenv.Soak(t, rest)
	framework(t, "openai-agents")
}

// framework runs the tests of a package over TCP, and checks its types.
func framework(t *testing.T, name string) {
	t.Helper()
	env := newPython(t, name)
	w := servetest.NewProcess(t, key+"\n")
	service := []string{"WOLFFIA_ADDRESS=http://" + w.Address, "WOLFFIA_API_KEY=" + key}
	env.pytest(t, service...)
	env.example(t, service...)
	env.run(t, nil, "-m", "mypy", "--strict", "wolffia_"+strings.ReplaceAll(name, "-", "_"))
}

// A python is a copy of a package in integrations, and the directory of all that its tests import.
type python struct {
	program, dir, installed string
}

// newPython copies a package, and installs it with what its requirements.txt pins. What the registry has
// is kept beside the cache of go's builds, by the digest of that file.
func newPython(t *testing.T, name string) *python {
	t.Helper()
	testenv.Tools(t, "python3")
	return newPythonOf(t, "python3", name)
}

// newPythonOf is newPython with another program than python3.
func newPythonOf(t *testing.T, program, name string) *python {
	t.Helper()
	p := &python{program: program, dir: filepath.Join(t.TempDir(), name)}
	p.copy(t, name)
	return p
}

// copy copies a package, which pip writes into.
func (p *python) copy(t *testing.T, name string) {
	t.Helper()
	client := filepath.Join(filepath.Dir(p.dir), "python")
	for from, to := range map[string]string{name: p.dir, "python": client} {
		if err := os.CopyFS(to, os.DirFS(filepath.Join(packages, from))); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	p.installed = p.requirements(t)
	own := t.TempDir()
	for _, from := range []string{client, p.dir} {
		p.pip(t, own, "--no-deps", "--no-build-isolation", "--upgrade", from)
	}
	p.installed = own + string(filepath.ListSeparator) + p.installed
}

// requirements returns the directory with what requirements.txt pins.
func (p *python) requirements(t *testing.T) string {
	t.Helper()
	file := filepath.Join(p.dir, "requirements.txt")
	pins, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(p.program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append(version, pins...))
	cache := filepath.Join(cacheDir(t), "wolffia-integrations")
	dir := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	making, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(making) })
	p.pip(t, making, "--only-binary", ":all:", "-r", file)
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another test has made it
		t.Fatal(err)
	}
	return dir
}

// cacheDir returns where go's builds are kept.
func cacheDir(t *testing.T) string {
	t.Helper()
	if builds := os.Getenv("GOCACHE"); builds != "" {
		return filepath.Dir(builds)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	return dir
}

func (p *python) pip(t *testing.T, dir string, args ...string) {
	t.Helper()
	args = append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile", "--target", dir}, args...)
	if text, err := p.try(t, nil, args...); err != nil {
		testenv.Lacks(t, "pip and the package registry of Python", "pip install: "+err.Error()+"\n"+text)
	}
}

// try runs Python in the package's directory.
func (p *python) try(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	return in(t, p.dir, append([]string{"PYTHONPATH=" + p.installed, "PYTHONDONTWRITEBYTECODE=1"}, env...), p.program, args...)
}

func (p *python) run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	text, err := p.try(t, env, args...)
	if err != nil {
		t.Errorf("python3 %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return text
}

// pytest runs the tests of the package. Those that it skips are in the log.
func (p *python) pytest(t *testing.T, env ...string) {
	t.Helper()
	t.Log(p.run(t, env, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests"))
}
