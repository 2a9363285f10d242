package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// With --cow a client can see what it has changed, and the end of the client loses nothing of it.
func TestMCPCow(t *testing.T) {
	t.Parallel()
	h := newMCPHost(t)
	c := h.connect("--cow")
	all, err := c.ListTools(c.ctx, nil)
	if err != nil || !slices.ContainsFunc(all.Tools, func(x *sdk.Tool) bool { return x.Name == "changes" }) {
		t.Fatalf("there is no tool for changes: %v", err)
	}
	if !strings.Contains(c.InitializeResult().Instructions, "The project is a copy") {
		t.Error("the instructions do not say that the project is a copy")
	}
	c.does("changes", args{}, "nothing was changed")
	c.does("write_file", args{"path": "sub/new", "content": "first\n"})
	c.does("bash", args{"command": "sed -i s/two/2/ sub/a.txt"})
	r := c.does("changes", args{}, "modified sub/a.txt +1 -1\nadded sub/new +1 -0")
	if list, _ := r.out["changes"].([]any); len(list) != 2 {
		t.Errorf(`does "changes" %q: got %v; want len(list) == 2`, "modified sub/a.txt +1 -1\nadded sub/new +1 -0", r.out)
	}
	r = c.does("changes", args{"paths": []string{"sub/a.txt"}, "diff": true}, "-two\n+2\n")
	if strings.Contains(r.text, "first") {
		t.Errorf("a diff of one path: %s", r.text)
	}
	if r := c.does("changes", args{"diff": true, "max_bytes": 20}, "the diff is longer"); len(fmt.Sprint(r.out["diff"])) > 20 {
		t.Errorf("20 bytes of diff: %v", r.out)
	}
	c.fails("changes", args{"paths": []string{"/etc/passwd"}}, "not in the project")
	c.fails("changes", args{"paths": []string{"../outside"}}, "not in the project")
	c.fails("changes", args{"paths": []string{"none"}}, "has no change")
	if r := c.does("status", args{}, "kept apart"); r.out["copied"] != true {
		t.Errorf(`does "status" "kept apart": got r.out %v; want r.out["copied"] == true`, r.out)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	id := strings.TrimSpace(h.wolffia("ls", "-q"))
	lines := strings.Split(strings.TrimSpace(c.said.text.String()), "\n")
	if want := fmt.Sprintf("wolffia: the changes are kept in sandbox %[1]s: wolffia diff %[1]s, wolffia apply %[1]s or wolffia rm -f %[1]s", id); lines[len(lines)-1] != want {
		t.Errorf("the last line is %q, want %q", lines[len(lines)-1], want)
	}
	if _, err := os.Lstat(filepath.Join(h.project, "sub/new")); !os.IsNotExist(err) {
		t.Errorf("the project was changed: %v", err)
	}
	if out := h.wolffia("diff", "--name-status", id); out != "M\tsub/a.txt\nA\tsub/new\n" {
		t.Errorf("kept are %q", out)
	}
	h.wolffia("rm", "-f", id)

	c = h.connect("--cow") // a client that changes nothing leaves nothing
	c.does("bash", args{"command": "ls"})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	h.none()

	heard, w, err := os.Pipe() // standard error has no reader in the end, as after a client that was killed
	if err != nil {
		t.Fatal(err)
	}
	c = h.connectTelling(w, "--cow")
	c.does("bash", args{"command": "echo work >result"})
	if err := errors.Join(w.Close(), heard.Close()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if out := h.wolffia("diff", "--name-status", strings.TrimSpace(h.wolffia("ls", "-q"))); out != "A\tresult\n" {
		t.Errorf("kept are %q", out)
	}
}
