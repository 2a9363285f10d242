package swerex_test

import (
	"context"
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

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

const keyAll, keyZoe = "0123456789abcdef-all", "0123456789abcdef-zoe"

// python runs a program with what is in a directory of packages.
func python(t *testing.T, packages string, args ...string) (string, error) {
	t.Helper()
	const limit = 4 * time.Minute // a guard against a hang
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1")
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// client installs the client of SWE-ReX and returns the directory of its packages.
func client(t *testing.T) string {
	t.Helper()
	testenv.Tools(t, "python3")
	dir := t.TempDir()
	text, err := python(t, "", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
		"--only-binary", ":all:", "--target", dir, "-r", filepath.Join("testdata", "requirements.txt"))
	if err != nil {
		testenv.Lacks(t, "pip and the package registry of Python", "pip install: "+err.Error()+"\n"+text)
	}
	return dir
}

// The client of SWE-ReX drives a service, and the example of docs/swerex.md works.
func TestClient(t *testing.T) {
	packages := client(t)
	w := servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n")
	if text, err := python(t, packages, filepath.Join("testdata", "drive.py"), w.Address, keyAll, keyZoe); err != nil {
		t.Fatalf("drive.py: %v\n%s\n%s", err, text, w.Log.String())
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "swerex.md"))
	w.OK(err)
	_, example, _ := strings.Cut(string(page), "```python\n")
	example, _, found := strings.Cut(example, "```")
	example = strings.NewReplacer("127.0.0.1:8080", w.Address, "KEY", keyZoe).Replace(example)
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "Makefile"), []byte("test:\n\t@echo tested\n"), 0o600))
	text, err := python(t, packages, "-c", example)
	if !found || err != nil || !strings.Contains(text, "\ntested\n") {
		t.Errorf("the example of docs/swerex.md: %v\n%s", err, text)
	}
	if log := w.Log.String(); !strings.Contains(log, `"call":"/swerex/{sandbox}/run_in_session"`) || strings.Contains(log, "task-1") {
		t.Errorf("the log has no pattern of a path, or a name of the client:\n%s", log)
	}
}
