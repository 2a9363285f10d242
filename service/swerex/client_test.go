package swerex_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/packaged"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

const keyAll, keyZoe = "0123456789abcdef-all", "0123456789abcdef-zoe"

// The client of SWE-ReX drives a service, and the example of docs/swerex.md works.
func TestClient(t *testing.T) {
	env := packaged.Python(t, filepath.Join("testdata", "requirements.txt"))
	w := servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n")
	drive := filepath.Join("testdata", "drive.py")
	if text, err := packaged.Run(t, "", env, "python3", drive, w.Address, keyAll, keyZoe); err != nil {
		t.Fatalf("drive.py: %v\n%s\n%s", err, text, w.Log.String())
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "swerex.md"))
	w.OK(err)
	_, example, _ := strings.Cut(string(page), "```python\n")
	example, _, found := strings.Cut(example, "```")
	example = strings.NewReplacer("127.0.0.1:8080", w.Address, "KEY", keyZoe).Replace(example)
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "Makefile"), []byte("test:\n\t@echo tested\n"), 0o600))
	text, err := packaged.Run(t, "", env, "python3", "-c", example)
	if !found || err != nil || !strings.Contains(text, "\ntested\n") {
		t.Errorf("the example of docs/swerex.md: %v\n%s", err, text)
	}
	if log := w.Log.String(); !strings.Contains(log, `"call":"/swerex/{sandbox}/run_in_session"`) || strings.Contains(log, "task-1") {
		t.Errorf("the log has no pattern of a path, or a name of the client:\n%s", log)
	}
}
