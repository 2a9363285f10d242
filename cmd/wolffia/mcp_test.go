package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// mcpLimit is a guard against a hang.
const mcpLimit = 10 * time.Minute

// An mcpHost is a project and a state directory on which wolffia mcp runs.
type mcpHost struct {
	t                  *testing.T
	project, state, at string
}

// newMCPHost makes a project with a secret, and a file beside it.
func newMCPHost(t *testing.T) *mcpHost {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Fuse)
	at := t.TempDir()
	for _, dir := range []string{filepath.Dir(at), at} { // as root, the user that is dropped to must get here
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := &mcpHost{t: t, project: filepath.Join(at, "project"), state: filepath.Join(at, "state"), at: at}
	files := map[string]string{"project/.env": "PASSWORD=secret\n", "project/sub/a.txt": "one\ntwo\nthree\n", "outside": "host\n", "home/x": ""}
	for name, text := range files {
		file := filepath.Join(at, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { h.wolffia("rm", "-f", "--all", "--yes") })
	return h
}

// command returns wolffia with arguments, in the project.
func (h *mcpHost) command(args ...string) *exec.Cmd {
	h.t.Helper()
	cache, err := os.UserCacheDir() // where make runsc has put it
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(testbin.Dir(h.t), "wolffia"), args...)
	cmd.Dir = h.project
	cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+h.state, "HOME="+filepath.Join(h.at, "home"), "XDG_CACHE_HOME="+cache, "XDG_CONFIG_HOME=", "GIT_CONFIG_GLOBAL=/dev/null")
	return cmd
}

// wolffia runs a command, and returns what it prints.
func (h *mcpHost) wolffia(args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).Output()
	if err != nil {
		h.t.Errorf("wolffia %q: %v", args, err)
	}
	return string(out)
}

// none checks that no sandbox is left, also no directory of one.
func (h *mcpHost) none() {
	h.t.Helper()
	if out := h.wolffia("ls", "-q"); out != "" {
		h.t.Errorf("sandboxes are left: %s", out)
	}
	if left, err := os.ReadDir(filepath.Join(h.state, "sandboxes")); err != nil || len(left) > 0 {
		h.t.Errorf("directories of sandboxes are left: %v, %v", left, err)
	}
}

// An mcpClient is a client of the official SDK.
type mcpClient struct {
	*mcpHost
	*sdk.ClientSession
	ctx      context.Context
	progress chan *sdk.ProgressNotificationParams
	said     *testLog // by wolffia, on standard error; read after Close
}

// connect starts wolffia mcp with flags. The client ends with the test, unless it is closed
// before.
func (h *mcpHost) connect(flags ...string) *mcpClient {
	h.t.Helper()
	said := &testLog{t: h.t}
	c := h.connectTelling(said, flags...)
	c.said = said
	return c
}

// connectTelling is connect with another standard error.
func (h *mcpHost) connectTelling(stderr io.Writer, flags ...string) *mcpClient {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), mcpLimit)
	h.t.Cleanup(cancel)
	c := &mcpClient{mcpHost: h, ctx: ctx, progress: make(chan *sdk.ProgressNotificationParams, 1000)}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { c.progress <- r.Params },
	})
	cmd := h.command(append([]string{"mcp"}, flags...)...)
	cmd.Stderr = stderr
	var err error
	if c.ClientSession, err = client.Connect(ctx, &sdk.CommandTransport{Command: cmd, TerminateDuration: time.Minute}, nil); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// A testLog logs what a program says on standard error.
type testLog struct {
	t    *testing.T
	text strings.Builder
}

func (l *testLog) Write(b []byte) (int, error) { l.t.Logf("%s", b); return l.text.Write(b) }

// An mcpResult is what a call has returned.
type mcpResult struct {
	text   string
	failed bool
	out    map[string]any
	all    []sdk.Content
}

type args = map[string]any

// tool calls a tool. The error is one of the protocol.
func (c *mcpClient) tool(ctx context.Context, name string, a args) (*mcpResult, error) {
	p := &sdk.CallToolParams{Name: name, Arguments: a}
	p.SetProgressToken(name)
	res, err := c.CallTool(ctx, p)
	if err != nil {
		return nil, err
	}
	r := &mcpResult{failed: res.IsError, all: res.Content}
	for _, content := range res.Content {
		if text, ok := content.(*sdk.TextContent); ok {
			r.text += text.Text
		}
	}
	r.out, _ = res.StructuredContent.(map[string]any)
	return r, nil
}

// does calls a tool, which must succeed; its text contains all parts.
func (c *mcpClient) does(name string, a args, parts ...string) *mcpResult {
	c.t.Helper()
	return c.check(false, name, a, parts)
}

// fails calls a tool, which must fail; its text contains all parts.
func (c *mcpClient) fails(name string, a args, parts ...string) {
	c.t.Helper()
	c.check(true, name, a, parts)
}

func (c *mcpClient) check(fails bool, name string, a args, parts []string) *mcpResult {
	c.t.Helper()
	r, err := c.tool(c.ctx, name, a)
	if err != nil {
		c.t.Fatalf("%s %v: %v", name, a, err)
	}
	if r.failed != fails || !fails && r.out == nil && name != "read_file" {
		c.t.Fatalf("%s %v: failed is %v, want %v: %s", name, a, r.failed, fails, r.text)
	}
	for _, part := range parts {
		if !strings.Contains(r.text, part) {
			c.t.Errorf("%s %v: no %q in %q", name, a, part, r.text)
		}
	}
	return r
}

// TestMCP tries each tool of wolffia mcp with each backend.
func TestMCP(t *testing.T) {
	t.Parallel()
	for _, backend := range []struct {
		name  string
		needs []probe.Feature
	}{
		{"bwrap", nil}, {"gvisor", []probe.Feature{probe.Runsc}}, {"docker", []probe.Feature{probe.Docker, probe.Fusermount}},
	} {
		t.Run(backend.name, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, backend.needs...)
			h := newMCPHost(t)
			c := h.connect("--runtime", backend.name, "--memory", "2g", "--limits", "best-effort", "-q")
			for _, part := range []struct {
				name string
				do   func(c *mcpClient)
			}{
				{"tools", (*mcpClient).listsTools},
				{"bash", (*mcpClient).keepsState},
				{"files", (*mcpClient).worksOnFiles},
				{"denials", (*mcpClient).explainsDenials},
				{"hostile", (*mcpClient).staysInside},
				{"output", (*mcpClient).boundsOutput},
				{"jobs", (*mcpClient).runsJobs},
				{"cancel", (*mcpClient).interrupts},
				{"concurrent", (*mcpClient).callsAtOnce},
				{"status", (*mcpClient).tellsStatus},
			} {
				t.Run(part.name, func(t *testing.T) {
					d := *c
					d.mcpHost = &mcpHost{t: t, project: h.project, state: h.state, at: h.at}
					part.do(&d)
				})
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			h.none()
		})
	}
}

func (c *mcpClient) listsTools() {
	res, err := c.ListTools(c.ctx, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if text, err := json.Marshal(res); err != nil || strings.Contains(string(text), `"null"`) {
		c.t.Errorf("a schema has null as a type, which not all clients understand: %s, %v", text, err)
	}
	var names []string
	for _, tool := range res.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema != nil || tool.Annotations == nil {
			c.t.Errorf("%s lacks a description, a schema or annotations, or describes its output", tool.Name)
		}
	}
	want := "bash bash_background bash_output edit_file explain_denial glob grep job_kill job_output job_wait list_dir read_file status write_file"
	if slices.Sort(names); strings.Join(names, " ") != want {
		c.t.Errorf(`got names %q; want strings.Join(names, " ") == %v`, names, want)
	}
	if _, err := c.tool(c.ctx, "format_disk", nil); err == nil {
		c.t.Error("a tool that does not exist")
	}
}

func (c *mcpClient) keepsState() {
	r := c.does("bash", args{"command": "cd sub; A=1; echo out; echo err >&2; (exit 7)"}, "out\n[stderr]\nerr\n[exit code 7, cwd "+c.project+"/sub]")
	if r.out["exit_code"] != 7.0 || r.out["stdout"] != "out\n" || r.out["stderr"] != "err\n" || r.out["cwd"] != c.project+"/sub" {
		c.t.Errorf(`does "bash": got r.out %v; want r.out["exit_code"] == 7.0 and r.out["stdout"] == %q and r.out["stderr"] == %q and r.out["cwd"] == %q`,
			r.out, "out\n", "err\n", c.project+"/sub")
	}
	c.does("bash", args{"command": "echo $A; pwd; cd .."}, "1\n"+c.project+"/sub\n")
	c.does("bash", args{"command": "pwd", "cwd": "/tmp"}, "/tmp\n", "cwd "+c.project+"]")
	r = c.does("bash", args{"command": "echo begun; sleep 1000", "timeout_ms": 300}, "begun\n[exit code 124", "timed out: ")
	if r.out["timed_out"] != true {
		c.t.Errorf(`does "bash" %q "timed out: ": got r.out %v; want r.out["timed_out"] == true`, "begun\n[exit code 124", r.out)
	}
	c.does("bash", args{"command": "exit 3"}, "[exit code 3", "the shell has ended")
	c.does("bash", args{"command": "echo $A"}, "1\n[exit code 0")
	r = c.does("bash", args{"command": `printf 'a\377b\0c'`}, "a\ufffdb\x00c")
	if r.out["stdout_bytes"] != 5.0 {
		c.t.Errorf(`does "bash" %q: got r.out %v; want r.out["stdout_bytes"] == 5.0`, "a\ufffdb\x00c", r.out)
	}
	c.fails("bash", args{"command": " "}, "command is empty")
	c.fails("bash", args{"command": "true", "timeout_ms": -1}, "timeout_ms -1: it must be")
	c.does("bash", args{"command": "pwd", "cwd": "sub"}, c.project+"/sub\n", "cwd "+c.project+"]")
	c.fails("bash", args{"command": "true", "cwd": "nowhere"}, c.project+"/nowhere")
	c.fails("bash", args{"command": "true", "cmd": "true"}, `"cmd" does not exist`)
	c.fails("bash", args{"command": nil}, "argument command is missing")
	c.fails("bash", args{"command": "true", "timeout_ms": "5"}, `argument timeout_ms is "5": it must be an integer`)
	c.does("bash", args{"command": "pwd", "cwd": nil, "timeout_ms": nil, "max_output_bytes": 0}, "[exit code 0")
}

func (c *mcpClient) worksOnFiles() {
	c.does("read_file", args{"path": "sub/a.txt"}, "1\tone\n2\ttwo\n3\tthree")
	r := c.does("read_file", args{"path": c.project + "/sub/a.txt", "offset": 2, "limit": 1}, "2\ttwo\n[lines 2 to 2 of 3: go on with offset 3]")
	if r.out != nil { // many clients would give the model that, and not the text
		c.t.Errorf("read_file: a text has structured content: %v", r.out)
	}
	if r = c.does("read_file", args{"path": "sub/a.txt", "line_numbers": false}); r.text != "one\ntwo\nthree\n" {
		c.t.Errorf(`does "read_file": got %q, want %q`, r.text, "one\ntwo\nthree\n")
	}
	c.does("read_file", args{"path": "sub/a.txt", "byte_offset": 4, "max_bytes": 3}, "two\n[the file has 14 bytes: go on with byte_offset 7]")
	c.does("write_file", args{"path": "new/dir/b.go", "content": "package b // ä\r\n"}, "created new/dir/b.go, 17 bytes")
	if b, err := os.ReadFile(filepath.Join(c.project, "new/dir/b.go")); err != nil || string(b) != "package b // ä\r\n" {
		c.t.Errorf("os.ReadFile: got %q, %v; want %q, nil", b, err, "package b // ä\r\n")
	}
	c.does("write_file", args{"path": "new/bin", "content": "AAH/", "encoding": "base64"}, "created new/bin, 3 bytes")
	c.does("read_file", args{"path": "new/bin"}, "binary file of 3 bytes (application/octet-stream): encoding base64 returns")
	if r = c.does("read_file", args{"path": "new/bin", "encoding": "base64"}); r.out["content"] != "AAH/" {
		c.t.Errorf(`does "read_file": got r.out %v; want r.out["content"] == "AAH/"`, r.out)
	}
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	c.does("write_file", args{"path": "new/p.png", "content": png, "encoding": "base64"})
	r = c.does("read_file", args{"path": "new/p.png"}, "image/png")
	if r.out != nil {
		c.t.Errorf("read_file: an image has structured content, for which clients drop the image: %v", r.out)
	}
	if image, ok := r.all[len(r.all)-1].(*sdk.ImageContent); !ok || image.MIMEType != "image/png" || len(image.Data) < 60 {
		c.t.Errorf(`does "read_file" "image/png": got %v; want ok and image.MIMEType == "image/png" and len(image.Data) >= 60`, r.all)
	}
	c.fails("write_file", args{"path": "new/x", "content": "%", "encoding": "base64"}, "not base64")
	c.fails("read_file", args{"path": "nothing"}, "nothing: no such file")
	c.fails("read_file", args{"path": "sub"}, "sub: not a regular file")
	c.fails("read_file", args{"path": "/dev/zero"}, "/dev/zero: not a regular file")
	c.fails("read_file", args{"path": "sub/a.txt", "offset": 9}, "line 9: the file has 3 lines")
	c.fails("read_file", args{"path": ""}, "path is empty")

	c.does("edit_file", args{"path": "sub/a.txt", "old_string": "two\n", "new_string": "2\n"}, "edited sub/a.txt, line 2")
	c.fails("edit_file", args{"path": "sub/a.txt", "old_string": "two", "new_string": "x"}, "sub/a.txt: old_string is not in the file")
	c.fails("edit_file", args{"path": "sub/a.txt", "old_string": "e", "new_string": "x"}, "old_string is in the file 3 times, on lines 1, 3, 3: give more")
	c.does("edit_file", args{"path": "sub/a.txt", "old_string": "e", "new_string": "E", "replace_all": true}, "3 replacements, the first on line 1")
	if b, err := os.ReadFile(filepath.Join(c.project, "sub/a.txt")); err != nil || string(b) != "onE\n2\nthrEE\n" {
		c.t.Errorf("os.ReadFile: got %q, %v; want %q, nil", b, err, "onE\n2\nthrEE\n")
	}

	c.does("list_dir", args{}, "new/\nsub/\n")
	if r = c.does("list_dir", args{"path": "new", "max_entries": 1}); !strings.Contains(fmt.Sprint(r.out["note"]), "raise max_entries") {
		c.t.Errorf("list_dir: the structured content lacks the advice of the text: %v", r.out)
	}
	r = c.does("list_dir", args{"path": "new", "depth": 2}, "bin\t3\ndir/\ndir/b.go\t17\n")
	if entries, _ := r.out["entries"].([]any); len(entries) != 4 {
		c.t.Errorf(`does "list_dir" %q: got r.out %v; want len(entries) == 4`, "bin\t3\ndir/\ndir/b.go\t17\n", r.out)
	}
	c.does("list_dir", args{"max_entries": 1}, "there are more")
	c.fails("list_dir", args{"path": "sub/a.txt"}, "not a directory")
	c.does("glob", args{"pattern": "**/*.{go,txt}"}, "new/dir/b.go\nsub/a.txt")
	c.does("glob", args{"pattern": "*.txt", "path": "sub"}, "sub/a.txt")
	c.does("glob", args{"pattern": "*.rs"}, "[no file matches]")
	c.fails("glob", args{"pattern": "[a"}, "must be like")
	r = c.does("grep", args{"pattern": "^[0-9]$", "context": 1}, "sub/a.txt-1-onE\nsub/a.txt:2:2\nsub/a.txt-3-thrEE")
	if matches, _ := r.out["matches"].([]any); len(matches) != 3 || r.out["skipped_binary"] == nil {
		c.t.Errorf(`does "grep" %q: got r.out %v; want len(matches) == 3 and r.out["skipped_binary"] != nil`,
			"sub/a.txt-1-onE\nsub/a.txt:2:2\nsub/a.txt-3-thrEE", r.out)
	}
	c.does("grep", args{"pattern": "ONE", "ignore_case": true, "glob": "*.txt", "files_only": true}, "sub/a.txt:1")
	c.fails("grep", args{"pattern": "("}, "RE2")
}

func (c *mcpClient) explainsDenials() {
	const rule = `denied by rule ".env=none" of preset agent-safe: lookup .env; to allow it, the user can run: `
	r := c.does("bash", args{"command": "cat .env"}, "No such file", rule, " policy add ", " --reveal '/.env=read'")
	list, _ := r.out["denied"].([]any)
	if len(list) != 1 {
		c.t.Fatalf(`does "bash" "No such file" " policy add " " --reveal '/.env=read'": got %v; want len(list) == 1`, r.out)
	}
	if d, _ := list[0].(map[string]any); d["path"] != ".env" || d["level"] != "none" || !strings.Contains(fmt.Sprint(d["allow"]), "policy add") {
		c.t.Errorf(`got d %v; want d["path"] == ".env" and d["level"] == "none" and d["allow"] contains "policy add"`, d)
	}
	c.fails("read_file", args{"path": ".env"}, ".env: no such file", rule)
	r = c.does("explain_denial", args{"path": ".env"}, `".env" is none: rule ".env=none" of preset agent-safe`, "start the server with: wolffia mcp --reveal '/.env=write'")
	if r.out["allowed"] != false || r.out["level"] != "none" || r.out["flag"] != "--reveal '/.env=write'" {
		c.t.Errorf(`does "explain_denial": got r.out %v; want r.out["allowed"] == false and r.out["level"] == "none" and r.out["flag"] == "--reveal '/.env=write'"`,
			r.out)
	}
	if r = c.does("explain_denial", args{"path": c.project + "/sub/a.txt"}, "write is allowed"); r.out["allowed"] != true {
		c.t.Errorf(`does "explain_denial" "write is allowed": got r.out %v; want r.out["allowed"] == true`, r.out)
	}
	c.does("explain_denial", args{"path": "../" + filepath.Base(c.project) + "/.env", "level": "read"}, "--reveal '/.env=read'")
	c.fails("explain_denial", args{"path": "../../x"}, "is not below the project")
	c.fails("explain_denial", args{"path": "/etc/passwd"}, "is not below the project")
	c.fails("explain_denial", args{"path": ".env", "level": "all"}, "must be view, read or write")
	// What the user does as the text says helps at once.
	allow, _ := c.does("explain_denial", args{"path": ".env", "level": "read"}).out["allow"].(string)
	cmd := c.command("policy", "add")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.Replace(allow, "wolffia", filepath.Join(testbin.Dir(c.t), "wolffia"), 1)}
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Errorf("%s: got err %v, out %s; want err == nil", allow, err, out)
	}
	c.does("read_file", args{"path": ".env"}, "PASSWORD=secret")
	c.wolffia("policy", "rm", c.id(), "/.env")
	c.fails("read_file", args{"path": ".env"}, "no such file")
}

// id returns the sandbox's id.
func (c *mcpClient) id() string {
	c.t.Helper()
	id, _ := c.does("status", args{}).out["sandbox"].(string)
	return id
}

// staysInside tries paths that lead out of the project, and links that are swapped.
func (c *mcpClient) staysInside() {
	for name, to := range map[string]string{"out": filepath.Join(c.at, "outside"), "up": "../outside", "root": "/", "secret": ".env", "self": "self"} {
		if err := os.Symlink(to, filepath.Join(c.project, name)); err != nil {
			c.t.Fatal(err)
		}
	}
	up := strings.Repeat("../", 30) + strings.TrimPrefix(c.at, "/") + "/outside"
	for _, name := range []string{"out", "up", up, "root" + c.at + "/outside", "secret", "self", "sub/../../outside", c.at + "/outside", "a\x00b"} {
		c.fails("read_file", args{"path": name})
		c.fails("edit_file", args{"path": name, "old_string": "host", "new_string": "x"})
	}
	for _, name := range []string{"out", "up", "../escaped", c.at + "/escaped", "secret"} {
		r, err := c.tool(c.ctx, "write_file", args{"path": name, "content": "escaped"})
		if err != nil {
			c.t.Fatal(name, err, r)
		}
	}
	c.does("grep", args{"pattern": "host|secret", "path": "."}, "[no line matches]")
	if r := c.does("glob", args{"pattern": "**", "path": "."}); strings.Contains(r.text, "outside") || strings.Contains(r.text, ".env") {
		c.t.Error(r.text)
	}
	for name, want := range map[string]string{"outside": "host\n", "project/.env": "PASSWORD=secret\n"} {
		if b, err := os.ReadFile(filepath.Join(c.at, name)); err != nil || string(b) != want {
			c.t.Errorf("%s: got %q, %v; want %q, nil", name, b, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(c.at, "escaped")); err == nil {
		c.t.Error("a file was written beside the project")
	}
	// A link that changes between a file, the secret and the host's file.
	c.does("bash_background", args{"command": "while :; do for to in sub/a.txt .env ../outside " + c.at + "/outside; do ln -sfn $to swap; done; done", "name": "swap"})
	for range testenv.Some(200) {
		for _, call := range []struct {
			tool string
			args args
		}{
			{"read_file", args{"path": "swap"}},
			{"grep", args{"pattern": "host|secret", "path": "swap"}},
			{"edit_file", args{"path": "swap", "old_string": "secret", "new_string": "x"}},
		} {
			r, err := c.tool(c.ctx, call.tool, call.args)
			if err != nil {
				c.t.Fatal(err)
			}
			if strings.Contains(r.text, "PASSWORD") || strings.Contains(r.text, "host\n") || strings.Contains(r.text, ":1:") {
				c.t.Fatalf("%s: got r.text %s; want r.text does not contain PASSWORD and r.text does not contain %q and r.text does not contain :1:",
					call.tool, r.text, "host\n")
			}
		}
	}
	c.does("job_kill", args{"job": "swap", "signal": "KILL"})
	c.does("job_wait", args{"job": "swap"}, "ended")
	c.swapsDirectories()
}

// swapsDirectories has a directory become a link to the project, to what is beside it on the
// host and to the root, while each tool works below it.
func (c *mcpClient) swapsDirectories() {
	c.does("bash_background", args{"name": "dirs", "command": "while :; do rm -rf d; mkdir d; echo inside >d/outside; echo inside >d/.e; for to in . .. " + c.at + " /; do rm -rf d; ln -s $to d; done; done"})
	for range testenv.Some(24) {
		for _, call := range []struct {
			tool string
			args args
		}{
			{"read_file", args{"path": "d/outside"}},
			{"read_file", args{"path": "d/.env"}},
			{"list_dir", args{"path": "d", "depth": 2}},
			{"glob", args{"pattern": "{,project/}.env", "path": "d"}},
			{"grep", args{"pattern": "host|PASSWORD", "path": "d", "glob": "{outside,.env}"}},
			{"write_file", args{"path": "d/escaped", "content": "escaped"}},
			{"write_file", args{"path": "d/outside", "content": "escaped"}},
			{"edit_file", args{"path": "d/.env", "old_string": "secret", "new_string": "x"}},
			{"bash", args{"command": "cat outside .env 2>/dev/null", "cwd": c.project + "/d"}},
		} {
			r, err := c.tool(c.ctx, call.tool, call.args)
			if err != nil {
				c.t.Fatal(err)
			}
			text := strings.ReplaceAll(r.text, c.at, "")
			if call.tool != "glob" && strings.Contains(text, "host\n") || strings.Contains(text, "PASSWORD=") || !r.failed && call.tool == "glob" && strings.Contains(text, ".env\n") {
				c.t.Fatalf(`tool: got call.tool %s, call.args %v, r.text %s; want (call.tool == glob or text does not contain %q) and text does not contain "PASSWORD=" and (r.failed or call.tool != glob or text does not contain %q)`,
					call.tool, call.args, r.text, "host\n", ".env\n")
			}
		}
	}
	c.does("job_kill", args{"job": "dirs", "signal": "KILL"})
	c.does("job_wait", args{"job": "dirs"}, "ended")
	for name, want := range map[string]string{"outside": "host\n", "project/.env": "PASSWORD=secret\n"} {
		if b, err := os.ReadFile(filepath.Join(c.at, name)); err != nil || string(b) != want {
			c.t.Errorf("%s: got %q, %v; want %q, nil", name, b, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(c.at, "escaped")); err == nil {
		c.t.Error("a file was written beside the project")
	}
	if err := os.RemoveAll(filepath.Join(c.project, "d")); err != nil { // a link, or a directory of ours
		c.t.Error(err)
	}
	_ = os.Remove(filepath.Join(c.project, "escaped"))
	_ = os.Remove(filepath.Join(c.project, "outside"))
}

func (c *mcpClient) boundsOutput() {
	r := c.does("bash", args{"command": "seq 100000; seq 5 >&2"}, "1\n2\n3\n", "99999\n100000\n[stderr]\n1\n2\n3\n4\n5\n[exit code 0", "bytes are left out here: bash_output with output_id o")
	if len(r.text) > 32_000 || r.out["truncated"] != true || r.out["stdout_bytes"] != 588895.0 {
		c.t.Errorf("%d bytes: %v", len(r.text), r.out["stdout_bytes"])
	}
	var all strings.Builder
	for at := 0.0; at < 588895; {
		r := c.does("bash_output", args{"output_id": r.out["output_id"], "offset": at, "max_bytes": 100_000})
		if r.out["from"] != at {
			c.t.Fatalf("%v, want %v", r.out["from"], at)
		}
		text, _ := r.out["text"].(string)
		all.WriteString(text)
		at, _ = r.out["next"].(float64)
	}
	var want strings.Builder
	for i := range 100000 {
		fmt.Fprintln(&want, i+1)
	}
	if all.String() != want.String() {
		c.t.Error("the parts are not the whole")
	}
	// More than is kept.
	r = c.does("bash", args{"command": "head -c 20000000 /dev/zero | tr '\\0' x; echo end", "max_output_bytes": 1000}, "xend\n")
	if len(r.text) > 2000 || r.out["stdout_bytes"] != 20000004.0 {
		c.t.Errorf("%d bytes: %v", len(r.text), r.out["stdout_bytes"])
	}
	r = c.does("bash_output", args{"output_id": r.out["output_id"], "offset": 10_000_000}, "bytes before this were not kept")
	if from, _ := r.out["from"].(float64); from != 20000004-(2<<20) {
		c.t.Errorf("got %v, want 20000004-(2<<20)", from)
	}
	c.fails("bash_output", args{"output_id": "o999"}, `output "o999" is not kept`)
	c.fails("bash", args{"command": "true", "max_output_bytes": 2000000}, "from 1 to 1000000")
}

func (c *mcpClient) runsJobs() {
	c.does("bash", args{"command": "B=2"})
	c.does("bash_background", args{"command": "echo $B; echo err >&2; exit 5", "name": "short"}, "(short)")
	r := c.does("job_wait", args{"job": "short"}, "[stdout, bytes 0 to 2 of 2]\n2\n", "err\n", "(short) ended, exit code 5")
	if job, _ := r.out["job"].(map[string]any); job["exit_code"] != 5.0 || job["state"] != "ended" {
		c.t.Errorf(`does "job_wait" %q %q "(short) ended, exit code 5": got %v; want job["exit_code"] == 5.0 and job["state"] == "ended"`,
			"[stdout, bytes 0 to 2 of 2]\n2\n", "err\n", r.out)
	}
	c.does("bash_background", args{"command": "pwd", "name": "below", "cwd": "sub"}, "(below)")
	c.does("job_wait", args{"job": "below"}, c.project+"/sub\n")
	c.does("bash_background", args{"command": "seq 1000; echo begun >flag; sleep 1000", "name": "long"}, "running")
	c.does("bash", args{"command": "until [ -e flag ]; do sleep 0.01; done"})
	c.does("job_wait", args{"job": "long", "timeout_ms": 50}, "running")
	c.does("job_output", args{"job": "long", "stdout_offset": 2, "max_bytes": 4}, "[stdout, bytes 2 to 6 of 3893]\n2\n3\n[job")
	c.does("job_output", args{"job": "long", "max_bytes": 9}, "999\n1000\n")
	c.does("job_kill", args{"job": "long", "signal": "KILL"}, "SIGKILL was sent")
	c.does("job_wait", args{"job": "long"}, "ended, exit code 137")
	c.fails("job_output", args{"job": "none"}, `no job "none": the jobs are `)
	c.fails("job_kill", args{"job": "long", "signal": "FOO"}, "must be a name such as TERM")
	c.does("status", args{}, "(long) ended")
}

// interrupts checks that a call that is canceled interrupts its command, and that progress
// says what the command has printed.
func (c *mcpClient) interrupts() {
	for len(c.progress) > 0 {
		<-c.progress
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.tool(ctx, "bash", args{"command": "C=3; echo waiting for nothing; sleep 4711; echo went on >went"})
		ended <- err
	}()
	for p := range c.progress {
		if p.ProgressToken == "bash" && p.Message == "waiting for nothing" {
			break
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		c.t.Error(err)
	}
	r := c.does("bash", args{"command": "echo $C; ps ax 2>/dev/null | grep -c '[4]711'; ls went"})
	if out, _ := r.out["stdout"].(string); out != "3\n0\n" {
		c.t.Errorf(`does "bash": got %v; want out == %q`, r.out, "3\n0\n")
	}
}

func (c *mcpClient) callsAtOnce() {
	var all sync.WaitGroup
	both := func(do ...func()) {
		for _, f := range do {
			all.Go(f)
		}
		all.Wait()
	}
	// A file is written while a command waits for it.
	both(
		func() { c.does("bash", args{"command": "until [ -e go ]; do sleep 0.01; done; echo went"}, "went\n") },
		func() { c.does("write_file", args{"path": "go", "content": ""}) },
	)
	// Commands run one after the other, each with its own output; no edit is lost.
	var lines strings.Builder
	var calls []func()
	for i := range 20 {
		fmt.Fprintf(&lines, "line %d.\n", i)
		calls = append(calls,
			func() {
				c.does("bash", args{"command": fmt.Sprintf("x=%d; sleep 0.01; echo $x", i)}, fmt.Sprintf("%d\n[exit", i))
			},
			func() {
				c.does("edit_file", args{"path": "lines", "old_string": fmt.Sprintf("line %d.", i), "new_string": fmt.Sprintf("LINE %d.", i)})
			})
	}
	c.does("write_file", args{"path": "lines", "content": lines.String()})
	both(calls...)
	r := c.does("read_file", args{"path": "lines", "line_numbers": false})
	if r.text != strings.ToUpper(lines.String()) {
		c.t.Errorf(`does "read_file": got %v, want strings.ToUpper(lines.String())`, r.text)
	}
}

func (c *mcpClient) tellsStatus() {
	r := c.does("status", args{}, "ends with the client", "project: "+c.project, "network: none", "from preset agent-safe")
	limits, _ := r.out["limits"].(map[string]any)
	if r.out["codebase"] != c.project || r.out["lasting"] != false || limits["memory_bytes"] != float64(2<<30) {
		c.t.Errorf(`does "status" "ends with the client" "network: none": got r.out %v; want r.out["codebase"] == %v and r.out["lasting"] == false and limits["memory_bytes"] == float64(2<<30)`,
			r.out, c.project)
	}
}

// TestMCPEnds: when the client or wolffia mcp is killed, in the midst of a command too,
// nothing of the sandbox stays.
func TestMCPEnds(t *testing.T) {
	t.Parallel()
	begin := func(h *mcpHost) (cmd *exec.Cmd, in io.Closer, out io.Closer) {
		cmd = h.command("mcp", "-q")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		guard := time.AfterFunc(mcpLimit, func() { _ = cmd.Process.Kill() })
		t.Cleanup(func() { guard.Stop() })
		_, err = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo begun; sleep 1000"},"_meta":{"progressToken":"p"}}}
`)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(stdout)
		for {
			var m struct {
				ID     int
				Params struct{ Message string }
				Result json.RawMessage
			}
			if err := dec.Decode(&m); err != nil {
				t.Fatal(err)
			}
			if m.ID == 2 {
				t.Fatalf("the command has not begun: %s", m.Result)
			}
			if m.Params.Message == "begun" {
				return cmd, stdin, stdout
			}
		}
	}
	t.Run("client", func(t *testing.T) {
		h := newMCPHost(t)
		cmd, in, out := begin(h)
		_, _ = out.Close(), in.Close() // as the kernel does for a client that is killed
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		h.none()
	})
	t.Run("SIGTERM", func(t *testing.T) {
		h := newMCPHost(t)
		cmd, _, _ := begin(h)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		h.none()
	})
	t.Run("server", func(t *testing.T) {
		h := newMCPHost(t)
		cmd, _, _ := begin(h)
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		wait.Until(t, "the removal of the sandbox by ls", func() bool { // once its processes have ended
			left, err := os.ReadDir(filepath.Join(h.state, "sandboxes"))
			return h.wolffia("ls", "-q") == "" && err == nil && len(left) == 0
		})
		h.none()
	})
}

// TestMCPSandbox: with --sandbox the sandbox stays, and other flags are not ignored.
func TestMCPSandbox(t *testing.T) {
	t.Parallel()
	h := newMCPHost(t)
	c := h.connect("--sandbox", "box", "--rule", "sub/=read")
	c.does("bash", args{"command": "D=4; echo kept >/tmp/kept"})
	if out := c.does("status", args{}).out; out["lasting"] != true || out["name"] != "box" {
		t.Errorf(`got out %v; want out["lasting"] == true and out["name"] == "box"`, out)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c = h.connect("--sandbox", "box", "--rule", "sub/=read")
	c.does("bash", args{"command": "echo $D; cat /tmp/kept"}, "4\nkept\n")
	// It is started again if it was stopped; one that was removed is made anew.
	h.wolffia("stop", "box")
	c.fails("bash", args{"command": "true"}, "has ended (its state is stopped", "the next call")
	c.does("bash", args{"command": "echo [$D]"}, "[]\n")
	h.wolffia("rm", "-f", "box")
	c.fails("read_file", args{"path": "sub/a.txt"}, "has ended (it was removed)")
	c.does("read_file", args{"path": "sub/a.txt"}, "1\tone")
	_ = c.Close()

	c = h.connect("--sandbox", "box")
	c.fails("bash", args{"command": "true"}, "sandbox box was made with other flags: remove it (wolffia rm -f box)")
	_ = c.Close()
	c = h.connect("--sandbox", "box", "--rule", "sub/=read", "--codebase", h.at)
	c.fails("bash", args{"command": "true"}, "sandbox box shows "+h.project)
	_ = c.Close()
	h.wolffia("create", "--name", "own", "-q")
	c = h.connect("--sandbox", "own", "--network", "host")
	c.fails("bash", args{"command": "true"}, "--network describe a new sandbox, and sandbox own exists")
	_ = c.Close()
	c = h.connect("--sandbox", "own")
	c.does("bash", args{"command": "echo works"}, "works\n")
	_ = c.Close()

	// What is wrong with the sandbox is an error of the first call; a flag that does not
	// exist, and a name of two kinds, are errors of the program.
	c = h.connect("--network", "nonsense")
	c.fails("bash", args{"command": "true"}, "the sandbox was not started", "nonsense")
	_ = c.Close()
	for flag, want := range map[string]string{"--nonsense": "unknown flag", "--name=x": "use --sandbox x"} {
		out, err := h.command("mcp", flag).CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != console.ExitFailed || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: got out %s; want ok and exit.ExitCode() == console.ExitFailed and out contains %v", flag, err, out, want)
		}
	}
}

// TestMCPCache: what an agent's commands have built is there for its next sandbox, without a flag.
func TestMCPCache(t *testing.T) {
	t.Parallel()
	h := newMCPHost(t)
	if err := os.WriteFile(filepath.Join(h.project, "go.mod"), []byte("module x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := h.connect("-q")
	c.does("bash", args{"command": "mkdir -p $GOCACHE && echo kept >$GOCACHE/f"})
	_ = c.Close()
	c = h.connect("-q")
	c.does("bash", args{"command": "cat $GOCACHE/f"}, "kept\n")
	_ = c.Close()
	c = h.connect("-q", "--rule", "/x=none")
	c.does("bash", args{"command": "ls /var/cache/wolffia/go"}, "[exit code 0")
	if out := c.does("bash", args{"command": "cat $GOCACHE/f"}).out; out["exit_code"] != 1.0 {
		t.Errorf("the cache of a sandbox with other rules: got %v, want exit code 1", out)
	}
	_ = c.Close()
}

// TestMCPHistory: why and audit know the commands of an agent.
func TestMCPHistory(t *testing.T) {
	t.Parallel()
	h := newMCPHost(t)
	c := h.connect("-q")
	c.does("bash", args{"command": "cat .env"}, "[exit code 1")
	c.does("bash", args{"command": "sleep 100", "timeout_ms": 10}, "[exit code 124")
	_ = c.Close()
	if out := h.wolffia("audit", "--last"); !strings.Contains(out, "exit code 1  'cat .env'\n  denied by the rules: lookup .env ") {
		t.Errorf("audit --last: got %q, want the denial of .env", out)
	}
	if out := h.wolffia("why"); !strings.Contains(out, "sleep 100") || !strings.Contains(out, "exit code 124") || !strings.Contains(out, "timed out: ") {
		t.Errorf("why: got %q, want that sleep has timed out", out)
	}
}

// TestMCPSandboxRules: rules of files are not ignored either.
func TestMCPSandboxRules(t *testing.T) {
	t.Parallel()
	h := newMCPHost(t)
	user, project, file := filepath.Join(h.at, "home/.config/wolffia/config.yaml"), filepath.Join(h.project, ".wolffia.yaml"), filepath.Join(h.at, "policy.yaml")
	if err := os.MkdirAll(filepath.Dir(user), 0o755); err != nil {
		t.Fatal(err)
	}
	const policy = "version: 1\nextends: agent-safe\nrules:\n  - sub/*.txt=read\n"
	for _, c := range []struct{ name, file, before, after string }{
		{"Rules", user, "rules: [\"/sub/=read\"]\n", "rules: [\"/sub/=none\"]\n"},
		{"NoRules", user, "rules: [\"/sub/=read\"]\n", "quiet: true\n"},
		{"Reveal", user, "rules: [\"/sub/=read\"]\n", "reveal: [\"/sub/=read\"]\n"},
		{"Preset", user, "preset: read-only\n", "preset: agent-safe\n"},
		{"Policy", file, policy, strings.Replace(policy, "=read", "=none", 1)},
		{"Network", file, policy + "network:\n  allow-host: [a.example]\n", policy + "network:\n  allow-host: [b.example]\n"},
		{"Project", project, "rules: [\"/sub/=read\"]\n", "rules: [\"/sub/=view\"]\n"},
	} {
		flags := []string{"--sandbox", c.name}
		write := func(text string) {
			if err := os.WriteFile(c.file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.file == project {
				h.wolffia("trust", "--yes")
			}
		}
		if c.file == file {
			flags = append(flags, "--policy", file)
		}
		write(c.before)
		s := h.connect(flags...)
		s.does("bash", args{"command": "D=4"})
		_ = s.Close()
		write("# Another line.\n" + c.before)
		s = h.connect(flags...)
		s.does("bash", args{"command": "echo $D"}, "4\n")
		_ = s.Close()
		write(c.after)
		s = h.connect(flags...)
		s.fails("bash", args{"command": "true"}, "sandbox "+c.name+" was made with other rules of configuration files or of a policy file: remove it (wolffia rm -f "+c.name+")")
		_ = s.Close()
		if err := os.Remove(c.file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMCPInspector calls tools by the command line of the protocol's own inspector.
func TestMCPInspector(t *testing.T) {
	t.Parallel()
	testenv.Soak(t, "installs @modelcontextprotocol/inspector with npm")
	testenv.Tools(t, "npm", "node")
	h := newMCPHost(t)
	run := func(cmd *exec.Cmd) (string, error) {
		t.Helper()
		guard := time.AfterFunc(2*mcpLimit, func() { _ = cmd.Process.Kill() })
		defer guard.Stop()
		cmd.Stderr = &testLog{t: t}
		out, err := cmd.Output()
		return string(out), err
	}
	npm := h.command()
	npm.Path, npm.Args, npm.Dir = "/usr/bin/env", []string{"env", "npm", "install", "--no-audit", "--no-fund", "@modelcontextprotocol/inspector@2"}, filepath.Join(h.at, "home")
	if out, err := run(npm); err != nil {
		testenv.Lacks(t, "tools", "npm install @modelcontextprotocol/inspector: "+err.Error()+": "+out)
	}
	inspect := func(args ...string) string {
		t.Helper()
		cmd := h.command()
		inspector := filepath.Join(npm.Dir, "node_modules/.bin/mcp-inspector")
		cmd.Args = append([]string{"env", inspector, "--cli", filepath.Join(testbin.Dir(t), "wolffia"), "mcp"}, args...)
		cmd.Path = "/usr/bin/env"
		out, err := run(cmd)
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
		return out
	}
	if out := inspect("--method", "tools/list"); !strings.Contains(out, `"name": "explain_denial"`) {
		t.Errorf(`inspect "--method" "tools/list": got out %s; want out contains %q`, out, `"name": "explain_denial"`)
	}
	out := inspect("--method", "tools/call", "--tool-name", "bash", "--tool-arg", "command=pwd; cat .env")
	for _, want := range []string{`"exit_code": 1`, `"cwd": "` + h.project + `"`, `denied by rule`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if out := inspect("--method", "tools/call", "--tool-name", "grep", "--tool-arg", "pattern=t.o"); !strings.Contains(out, "sub/a.txt:2:two") {
		t.Errorf(`inspect "--method" "tools/call" "--tool-name" "grep" "--tool-arg": got out %s; want out contains sub/a.txt:2:two`, out)
	}
	h.none()
}

// TestMCPWithoutPrograms: the tools need nothing of the system inside but a shell.
func TestMCPWithoutPrograms(t *testing.T) {
	t.Parallel()
	busybox := testenv.Busybox(t)
	h := newMCPHost(t)
	root := filepath.Join(h.at, "root")
	program, err := os.ReadFile(busybox)
	if err = errors.Join(err, os.MkdirAll(filepath.Join(root, "bin"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/sh"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	c := h.connect("--rootfs", root, "-q")
	c.does("bash", args{"command": "cd sub; A=1"}, "[exit code 0, cwd /workspace/sub]")
	c.does("bash", args{"command": "echo $A; echo /bin/* /usr/bin/*"}, "1\n/bin/sh /usr/bin/*\n")
	c.does("read_file", args{"path": "sub/a.txt"}, "2\ttwo")
	c.does("write_file", args{"path": "new/b", "content": "two\n"}, "created")
	c.does("edit_file", args{"path": "new/b", "old_string": "two", "new_string": "2"}, "edited")
	c.does("list_dir", args{}, "new/\nsub/")
	c.does("glob", args{"pattern": "**"}, "new/b\nsub/a.txt")
	c.does("grep", args{"pattern": "^.$"}, "new/b:1:2")
	c.fails("read_file", args{"path": ".env"}, "denied by rule")
	c.does("bash_background", args{"command": "echo done", "name": "j"}, "(j)")
	c.does("job_wait", args{"job": "j"}, "done\n", "exit code 0")
	c.does("status", args{}, "inside at /workspace")
}
