package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// The inspector of the protocol's authors lists and calls tools over HTTP, and over standard
// input and output. Its version, and those of what it depends on, are in
// testdata/inspector/package-lock.json, with their digests. npm needs half a minute for them.
func TestInspector(t *testing.T) {
	if !testenv.Full() {
		t.Skip("slow: make soak runs it; the client of the official SDK is in the tests beside it")
	}
	testenv.Tools(t, "node", "npm")
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", "inspector", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait.Limit)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if text, err := install.CombinedOutput(); err != nil {
		testenv.Lacks(t, "the package registry of npm", fmt.Sprintf("npm ci: %v\n%s", err, text))
	}
	w := servetest.New(t, "") // this version sends no header
	wolffia := filepath.Join(testbin.Dir(t), "wolffia")
	for name, server := range map[string][]string{
		"http":  {"http://" + w.Address + "/mcp", "--transport", "http"},
		"stdio": {wolffia, "mcp", "--codebase", w.Codebase},
	} {
		inspect := func(to any, arguments ...string) {
			t.Helper()
			cli := filepath.Join("node_modules", "@modelcontextprotocol", "inspector-cli", "build", "index.js")
			cmd := exec.CommandContext(ctx, "node", append(append([]string{cli}, server...), arguments...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+filepath.Join(w.State, name), "HOME="+dir)
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, to)
			}
			if err != nil {
				t.Fatalf("%s %q: got err %v, out %s; want err == nil", name, arguments, err, out)
			}
		}
		var list struct{ Tools []struct{ Name string } }
		if inspect(&list, "--method", "tools/list"); len(list.Tools) != 14 {
			t.Errorf("%s: the tools are %v", name, list.Tools)
		}
		var r struct {
			StructuredContent struct {
				Stdout string
				Exit   int `json:"exit_code"`
			}
		}
		inspect(&r, "--method", "tools/call", "--tool-name", "bash", "--tool-arg", "command=echo out; exit 3")
		if r.StructuredContent.Stdout != "out\n" || r.StructuredContent.Exit != 3 {
			t.Errorf("%s: got r %+v; want r.StructuredContent.Stdout == %q and r.StructuredContent.Exit == 3", name, r, "out\n")
		}
	}
}
