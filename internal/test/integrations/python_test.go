// Package integrations runs the tests of the packages in integrations against a real wolffia serve, and the frameworks that they are for.
package integrations

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/packaged"
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

// A python is a copy of a package in integrations, with variables that have all that its tests
// import.
type python struct {
	program, dir string
	env          []string
}

// newPython copies a package, which pip writes into, and installs it with what its requirements.txt
// pins.
func newPython(t *testing.T, name string) *python {
	t.Helper()
	return newPythonOf(t, "python3", name)
}

// newPythonOf is newPython with another program than python3.
func newPythonOf(t *testing.T, program, name string) *python {
	t.Helper()
	dir, own := t.TempDir(), t.TempDir()
	p := &python{program: program, dir: filepath.Join(dir, name)}
	p.env = packaged.PythonOf(t, program, filepath.Join(packages, name, "requirements.txt"))
	for _, part := range []string{"python", name} {
		at := filepath.Join(dir, part)
		if err := os.CopyFS(at, os.DirFS(filepath.Join(packages, part))); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		packaged.PIP(t, program, p.env, own, "--no-deps", "--no-build-isolation", "--upgrade", at)
	}
	p.env[0] = strings.Replace(p.env[0], "=", "="+own+string(filepath.ListSeparator), 1)
	return p
}

func (p *python) run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	text, err := packaged.Run(t, p.dir, append(env, p.env...), p.program, args...)
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
