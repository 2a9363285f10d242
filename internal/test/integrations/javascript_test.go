package integrations

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// deepagents for JavaScript. Its version, and those of what it depends on, are in package-lock.json, with their digests.
func TestDeepagentsJS(t *testing.T) {
	testenv.Soak(t, "the package for Python stands for both in each run")
	testenv.Tools(t, "node", "npm")
	dir := filepath.Join(t.TempDir(), "deepagents-js")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(packages, "deepagents-js"))); err != nil {
		t.Fatal(err)
	}
	if text, err := in(t, dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		testenv.Lacks(t, "the package registry of npm", fmt.Sprintf("npm ci: %v\n%s", err, text))
	}
	w := servetest.NewProcess(t, key+"\n")
	text, err := in(t, dir, []string{"WOLFFIA_ADDRESS=http://" + w.Address, "WOLFFIA_API_KEY=" + key}, "npm", "test")
	if t.Log(text); err != nil {
		t.Errorf("npm test: %v", err)
	}
}

// in runs a program in a directory.
func in(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}
