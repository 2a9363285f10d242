package opensandbox_test

import (
	"path/filepath"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/packaged"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// The official SDKs of OpenSandbox for Python, of sandboxes and of code interpreters, drive a service.
func TestPythonSDK(t *testing.T) {
	testenv.Tools(t, "node")
	env := packaged.Python(t, filepath.Join("testdata", "python", "requirements.txt"))
	w := &world{servetest.New(t, keyAll)}
	if text, err := packaged.Run(t, filepath.Join("testdata", "python"), env, "python3", "drive.py", w.Address, keyAll); err != nil {
		t.Errorf("drive.py: %v\n%s\n%s", err, text, w.Log.String())
	}
}

// OpenSandbox's SDK makes snapshots of running sandboxes, and sandboxes of them.
func TestSnapshots(t *testing.T) {
	testenv.Need(t, probe.Runsc)
	env := packaged.Python(t, filepath.Join("testdata", "python", "requirements.txt"))
	w := servetest.NewProcess(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n", "--runtime", "gvisor")
	if text, err := packaged.Run(t, filepath.Join("testdata", "python"), env, "python3", "snapshot.py", w.Address, keyAll, keyZoe); err != nil {
		t.Errorf("snapshot.py: %v\n%s", err, text)
	}
}
