package opensandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// The official SDK of OpenSandbox for JavaScript drives a service: in a full test all of its methods. Its version, and those of
// what it depends on, are in testdata/sdk/package-lock.json, with their digests.
func TestSDK(t *testing.T) {
	testenv.Tools(t, "node", "npm", "python3")
	drive := "short.mjs"
	if testenv.Full() {
		drive = "drive.mjs"
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "spy.mjs", drive} {
		text, err := os.ReadFile(filepath.Join("testdata", "sdk", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := runIn(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		testenv.Lacks(t, "the package registry of npm", fmt.Sprintf("npm ci: %v\n%s", err, text))
	}
	w := &world{servetest.New(t, keyAll)}
	if text, err := runIn(t, dir, "node", drive, w.Address, keyAll); err != nil {
		t.Errorf(`runIn "node": got err %v, text %s, %s; want err == nil`, err, text, w.Log.String())
	}
}

// runIn runs a program in a directory.
func runIn(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 3 * time.Minute // a guard against a hang
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	return string(text), err
}
