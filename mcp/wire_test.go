package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/local"
	"wolffia/runtime/bwrap"
)

// hello is how a client begins.
const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// Whatever a client writes, the server answers with lines of JSON, or ends: it does not panic
// and does not hang. No call gets further than to a sandbox that is not there.
func FuzzWire(f *testing.F) {
	call := func(tool, args string) string {
		return hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,"_meta":{"progressToken":1}}}` + "\n"
	}
	for tool, args := range calls {
		text, err := json.Marshal(args)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(call(tool, string(text)))
	}
	for _, text := range []string{
		hello, "", "\n", "{", "[]\n", "null\n", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}` + "\n", hello + hello,
		hello + `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":1,"method":"ping"}]` + "\n",
		hello + `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		hello + `{"jsonrpc":"2.0","id":5,"result":{}}` + "\n",
		call("bash", `{"command":"true","cwd":"/x","timeout_ms":1,"max_output_bytes":5}`), call("bash_background", `{"command":"true","name":"x"}`),
		call("bash_output", `{"output_id":"o1","stream":"stdout","offset":-1,"max_bytes":1e300}`), call("job_output", `{"job":"x","offset":-1}`),
		call("job_wait", `{"job":"x","timeout_ms":1}`), call("job_kill", `{"job":"x","signal":"NONE"}`), call("status", `{}`), call("explain_denial", `{"path":"/x","level":"read"}`),
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	rt, err := local.New(&local.Options{StateDir: dir, Binary: filepath.Join(dir, "none")}, bwrap.Backend())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = rt.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		s := New(&Options{
			Runtime: &liar{RuntimeWithSession: rt, answer: []byte("{}")}, Session: "mcp", Version: "test", Allow: func(string) string { return "wolffia policy add " }, AllowHost: func(string) string { return "wolffia network allow " },
			Open:    func(context.Context) (string, error) { return "aaaaaaaaaaaa", nil },
			Inspect: func(context.Context, string) (*Details, error) { return &Details{}, nil },
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a guard against a hang
		defer cancel()
		var out bytes.Buffer
		_ = s.Serve(ctx, strings.NewReader(text), &out) // what is no JSON ends it
		if ctx.Err() != nil {
			t.Fatal("it hangs")
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Fatalf("it says %q", line)
			}
		}
	})
}
