package agent_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/test/servetest"
)

// call returns a call of a tool.
func call(tool, args string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// post posts a message.
func post(w *servetest.World, body string, headers ...string) (int, string) {
	headers = append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, headers...)
	status, _, text := w.Do(http.MethodPost, "/mcp", strings.NewReader(body), headers...)
	return status, text
}

// A file of 40 MiB costs the service at most three times its size, and others wait meanwhile.
func TestBigFile(t *testing.T) {
	const size = 40 << 20
	p := servetest.NewProcess(t, "")
	c := connect(p.World, "/mcp", "")
	c.bash("true")
	args := `{"path":"big","content":"` + strings.Repeat(`\"\u00e4\n01234567`, size/16) + `"}`
	want := sha256.Sum256([]byte(strings.Repeat("\"ä\n01234567", size/16)))
	before := p.Peak()
	each := make(chan string)
	for range 3 {
		go func() {
			status, text := post(p.World, call("write_file", args), "Mcp-Session-Id", c.ID())
			each <- fmt.Sprint(status, text)
		}()
	}
	for range 3 {
		if text := <-each; !strings.Contains(text, `"size":`) {
			t.Fatalf("write_file: %.500s", text)
		}
	}
	got := p.Peak() - before
	t.Logf("%d MiB", got>>20)
	if got > 3*size {
		t.Errorf("the service has taken %d MiB for a file of %d MiB", got>>20, size>>20)
	}
	b, err := os.ReadFile(filepath.Join(p.Codebase, "big"))
	if p.OK(err); sha256.Sum256(b) != want {
		t.Errorf("the file has another content, %d bytes", len(b))
	}
	for _, body := range []string{call("edit_file", args), call("write_file", args) + strings.Repeat(" ", 30<<20)} {
		if status, text := post(p.World, body, "Mcp-Session-Id", c.ID()); status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "8388608 bytes, with the content of write_file 67108864") {
			t.Errorf("a message of %d bytes: %d %.200s", len(body), status, text)
		}
	}
	// No client can name the content of another one's message, or of its own.
	if _, text := post(p.World, call("write_file", `{"path":"x","content":"big-A"}`), "Mcp-Session-Id", c.ID(), "Wolffia-Big", "big-A"); !strings.Contains(text, `"size":5`) {
		t.Errorf("a header of the client's: %s", text)
	}
}

// A method that does not exist is an error of JSON-RPC, as on standard input.
func TestUnknownMethod(t *testing.T) {
	w := servetest.New(t, "")
	c := connect(w, "/mcp", "")
	status, text := post(w, `{"jsonrpc":"2.0","id":"x","method":"format/disk"}`, "Mcp-Session-Id", c.ID())
	if status != http.StatusOK || !strings.Contains(text, `"id":"x"`) || !strings.Contains(text, "-32601") {
		t.Errorf("%d %s", status, text)
	}
}

// Version 2026-07-28 of the protocol has no sessions: each request is one for itself. What a client's calls keep is kept.
func TestWithoutSessions(t *testing.T) {
	w := servetest.New(t, keys)
	const version = "2026-07-28"
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	ask := func(key, method, name, params string) (int, string) {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + meta + `}}`
		headers := []string{"Authorization", "Bearer " + key, "MCP-Protocol-Version", version, "Mcp-Method", method}
		if name != "" {
			headers = append(headers, "Mcp-Name", name)
		}
		return post(w, body, headers...)
	}
	bash := func(key, command string) string {
		t.Helper()
		status, text := ask(key, "tools/call", "bash", `"name":"bash","arguments":{"command":"`+command+`","max_output_bytes":10},`)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", command, status, text)
		}
		return text
	}
	if status, text := ask(keyAnn, "server/discover", "", ""); status != http.StatusOK || !strings.Contains(text, `"`+version+`"`) {
		t.Errorf("server/discover: %d %s", status, text)
	}
	if text := bash(keyAnn, "A=ann; seq 100"); !strings.Contains(text, `"output_id":"o1"`) {
		t.Errorf("bash: %s", text)
	}
	if text := bash(keyAnn, "echo $A"); !strings.Contains(text, `"stdout":"ann\n"`) {
		t.Errorf("the shell of the next request: %s", text)
	}
	output := `"name":"bash_output","arguments":{"output_id":"o1"},`
	if _, text := ask(keyAnn, "tools/call", "bash_output", output); !strings.Contains(text, `99\n100\n`) {
		t.Errorf("bash_output: %s", text)
	}
	if _, text := ask(keyBob, "tools/call", "bash_output", output); !strings.Contains(text, "is not kept") {
		t.Errorf("bob reads the output of ann: %s", text)
	}
	if status, _ := ask("wrong-key-1234567890", "tools/list", "", ""); status != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d", status)
	}
	if status, text := ask(keyAnn, "format/disk", "", ""); status != http.StatusNotFound || !strings.Contains(text, "-32601") {
		t.Errorf("a method that does not exist: %d %s", status, text)
	}
	if status, _, _ := w.Do(http.MethodGet, "/mcp", nil, "Authorization", "Bearer "+keyAnn, "MCP-Protocol-Version", version); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", status)
	}
	// The official client uses the newest version that the server has.
	c, err := speak(w, "/mcp", keyAnn, slices.Max(sdk.SupportedProtocolVersions()))
	w.OK(err)
	if got := c.InitializeResult().ProtocolVersion; got != version || c.ID() != "" {
		t.Errorf("the client speaks %s in session %q", got, c.ID())
	}
	if got := c.bash("echo $A"); got != "ann\n" {
		t.Errorf("the official client: %q", got)
	}
	w.OK(c.Close())
}
