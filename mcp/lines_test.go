package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// A line of a client that is no message of JSON-RPC is answered with the error that the
// protocol has for it, and the server serves on.
func TestLinesThatAreNoMessages(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for line, want := range map[string]string{
		"garbage":                   `null -32700`,
		ping + " " + ping:           `null -32700`,
		"{\"jsonrpc\":\"2.0\",\xff": `null -32700`,
		"123":                       `null -32600`,
		"null":                      `null -32600`,
		"[]":                        `null -32600`,
		"[" + ping + ",5]":          `null -32600`,
		`{"foo":1}`:                 `null -32600`,
		`{"jsonrpc":"1.0","id":5,"method":"ping"}`:  `5 -32600`,
		`{"jsonrpc":"2.0","id":"a","method":5}`:     `"a" -32600`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`: `null -32600`,
		"":    "",
		" \r": "",
	} {
		t.Run(line, func(t *testing.T) {
			s := New(&Options{
				Runtime: &liar{}, Session: "mcp", Version: "test", Allow: func(string) string { return "" },
				Open:    func(context.Context) (string, error) { return "aaaaaaaaaaaa", nil },
				Inspect: func(context.Context, string) (*Details, error) { return &Details{}, nil },
			})
			// The client ends when it has the last answer.
			in, ours := io.Pipe()
			theirs, out := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- s.Serve(t.Context(), in, out); _ = out.Close() }()
			go func() { _, _ = io.WriteString(ours, hello+line+"\n"+ping+"\n") }()
			var got string
			for d := json.NewDecoder(theirs); ; {
				var reply struct {
					ID    json.RawMessage
					Error *struct{ Code int }
				}
				if err := d.Decode(&reply); err != nil {
					t.Fatalf("no answer to the ping: %v", err)
				}
				if reply.Error != nil {
					code, _ := json.Marshal(reply.Error.Code)
					got += string(reply.ID) + " " + string(code)
				}
				if string(reply.ID) == "2" {
					break
				}
			}
			_ = ours.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if got != want {
				t.Errorf("errors %s, want %s", got, want)
			}
		})
	}
}

// A line of any length is read whole, and one that is too long is an error.
func TestLongLines(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<20) + `"}` + "\n"
	read := func(in string) ([]byte, error) {
		return io.ReadAll(newLineReader(strings.NewReader(in), io.Discard, func() {}))
	}
	if got, err := read(text + text); string(got) != text+text || err != nil {
		t.Errorf("read %d bytes of %d, %v", len(got), 2*len(text), err)
	}
	if got, err := read(strings.TrimSuffix(text, "\n")); !bytes.Equal(got, []byte(strings.TrimSuffix(text, "\n"))) || err != nil {
		t.Errorf("without an end: read %d bytes of %d, %v", len(got), len(text)-1, err)
	}
	if _, err := read(text + strings.Repeat("x", maxMessage+1)); err == nil {
		t.Error("a line of more than maxMessage bytes is no error")
	}
}
