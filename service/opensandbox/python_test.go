package opensandbox_test

import (
	"path/filepath"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// The official SDKs of OpenSandbox for Python, of sandboxes and of code interpreters, drive a service.
func TestPythonSDK(t *testing.T) {
	testenv.Tools(t, "python3", "node")
	dir := t.TempDir()
	text, err := runIn(t, filepath.Join("testdata", "python"), "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--no-compile", "--only-binary", ":all:", "--target", dir, "-r", "requirements.txt")
	if err != nil {
		testenv.Lacks(t, "pip and the package registry of Python", "pip install: "+err.Error()+"\n"+text)
	}
	w := &world{servetest.New(t, keyAll)}
	t.Setenv("PYTHONPATH", dir)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	if text, err := runIn(t, filepath.Join("testdata", "python"), "python3", "drive.py", w.Address, keyAll); err != nil {
		t.Errorf("drive.py: %v\n%s\n%s", err, text, w.Log.String())
	}
}
