package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/internal/test/packaged"
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
	dir := packaged.Node(t, filepath.Join("testdata", "inspector"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait.Limit)
	defer cancel()
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
