package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// While a program inside swaps directories and files for links, no tool of a session over HTTP
// reads or writes what is outside of the codebase, or hidden.
func TestSwaps(t *testing.T) {
	w := servetest.New(t, "")
	outside := t.TempDir()
	w.OK(os.Chmod(outside, 0o777))
	kept := map[string]string{filepath.Join(outside, "f"): "0utside\n", filepath.Join(w.Codebase, "secret"): "0utside\n"}
	for path, text := range kept {
		w.OK(os.WriteFile(path, []byte(text), 0o666))
	}
	c := connect(w, "/mcp", "")
	c.ok("bash_background", args{"name": "swaps", "command": `mkdir d; echo inside >d/f
while :; do for to in ` + outside + ` d /; do rm -rf x; ln -s $to x; done; rm x; mkdir x; echo inside >x/f; ln -sfn secret y; ln -sfn ` + outside + `/f y; ln -sfn d/f y; rm -r x; done`})
	done := map[string]bool{} // else the test would test nothing
	for n := 0; n < testenv.Some(16) || !done["read_file"] || !done["list_dir"] || !done["glob"] || !done["write_file"] || !done["bash"]; n++ {
		for _, call := range []struct {
			tool string
			args args
		}{
			{"read_file", args{"path": "x/f"}},
			{"read_file", args{"path": "y", "byte_offset": 0}},
			{"grep", args{"pattern": "0ut[s]ide", "path": "x"}},
			{"grep", args{"pattern": "0ut[s]ide", "path": "y"}},
			{"list_dir", args{"path": "x"}},
			{"glob", args{"pattern": "{f,secret}", "path": "x"}},
			{"write_file", args{"path": "x/f", "content": "inside\n"}},
			{"write_file", args{"path": "x/new", "content": "inside\n"}},
			{"edit_file", args{"path": "y", "old_string": "0utside", "new_string": "changed"}},
			{"bash", args{"command": "cat f ../y; true", "cwd": "/workspace/x"}},
		} {
			text, out, failed, err := c.tool(c.ctx, call.tool, call.args)
			w.OK(err)
			done[call.tool] = done[call.tool] || !failed
			if content := fmt.Sprint(out["content"], out["stdout"], out["matches"]); strings.Contains(content, "0utside\n") || strings.Contains(text, ":0utside") {
				t.Fatalf("%s %v: got text %s; want content does not contain %q and text does not contain :0utside",
					call.tool, call.args, text, "0utside\n")
			}
		}
	}
	c.ok("job_kill", args{"job": "swaps", "signal": "KILL"})
	for path, want := range kept {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: got %q, %v; want %q, nil", path, text, err, want)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 1", left, err)
	}
}
