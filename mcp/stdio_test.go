package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lineServer returns a server whose sandbox does nothing.
func lineServer() *Server {
	return New(&Options{
		Runtime: &liar{}, Session: "mcp", Version: "test", Allow: func(string) string { return "" }, AllowHost: func(string) string { return "" },
		Open:    func(context.Context) (string, error) { return "aaaaaaaaaaaa", nil },
		Inspect: func(context.Context, string) (*Details, error) { return &Details{}, nil },
	})
}

// A line of a client that is no message of JSON-RPC is answered with the error that the
// protocol has for it, a batch is taken apart, and the server serves on.
func TestLines(t *testing.T) {
	const ping, last = `{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":"last","method":"ping"}`
	const notice = `{"jsonrpc":"2.0","method":"notifications/x"}`
	for line, want := range map[string]string{
		"garbage":                   `-32700 null`,
		ping + " " + ping:           `-32700 null`,
		"{\"jsonrpc\":\"2.0\",\xff": `-32700 null`,
		"[" + ping:                  `-32700 null`,
		"123":                       `-32600 null`,
		"null":                      `-32600 null`,
		"[]":                        `-32600 null`,
		`{"foo":1}`:                 `-32600 null`,
		`{"jsonrpc":"1.0","id":5,"method":"ping"}`:                `-32600 5`,
		`{"jsonrpc":"2.0","id":"a","method":5}`:                   `"a" -32600`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:               `-32600 null`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:              `-32600 1.5`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`: `-32600 9007199254740993`,
		"":               "",
		" \r":            "",
		ping + "\r":      "2",
		notice:           "",
		"[" + ping + "]": "2",
		"[" + notice + "," + ping + "," + notice + "]": "2",
		"[" + ping + ",5]": "-32600 2 null",
		"[" + notice + "]\n[" + notice + "," + ping + "]": "2",
	} {
		t.Run(line, func(t *testing.T) {
			in, ours := io.Pipe()
			theirs, out := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- lineServer().Serve(t.Context(), in, out); _ = out.Close() }()
			send := func(text string) {
				if _, err := io.WriteString(ours, text+"\n"); err != nil {
					t.Error(err)
				}
			}
			d := json.NewDecoder(theirs)
			var got []string
			receive := func() (id string) {
				var reply struct {
					ID    json.RawMessage
					Error *struct{ Code int }
				}
				if err := d.Decode(&reply); err != nil {
					t.Fatalf("the server has ended: %v; replies so far: %s", err, got)
				}
				got = append(got, string(reply.ID))
				if reply.Error != nil {
					got = append(got, strconv.Itoa(reply.Error.Code))
				}
				return string(reply.ID)
			}
			go send(hello + line)
			for receive() != "0" { // of hello
			}
			for got = slices.DeleteFunc(got, func(id string) bool { return id == "0" }); len(got) < len(strings.Fields(want)); {
				receive()
			}
			go send(last)
			if id := receive(); id != `"last"` {
				t.Errorf("one more reply, for %s", id)
			}
			got = got[:len(got)-1]
			_ = ours.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			slices.Sort(got) // calls are answered in any order
			if got := strings.Join(got, " "); got != want {
				t.Errorf("replies %s, want %s", got, want)
			}
		})
	}
}

// What a client asks for before its stream ends is answered.
func TestRepliesAfterTheEnd(t *testing.T) {
	for range 20 {
		var out bytes.Buffer
		if err := lineServer().Serve(t.Context(), strings.NewReader(hello+`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), &out); err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != 2 || !bytes.Contains(out.Bytes(), []byte(`"bash_output"`)) {
			t.Fatalf("%d replies: %.200s", lines, out.Bytes())
		}
	}
}

// A call for which the sandbox is still being made says why it is given up.
func TestEndBeforeTheSandbox(t *testing.T) {
	s := lineServer()
	s.Open = func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	var out bytes.Buffer
	in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"true"}}}`
	if err := s.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if want := "the sandbox was not started: the client's input has ended"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %s, want %q", out.Bytes(), want)
	}
}

// A line of any length is read whole, and one that is too long is an error.
func TestLongLines(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<20) + `"}`
	c := newStdio(strings.NewReader(text+"\n"+text), io.Discard, nil)
	for range 2 {
		if line, err := c.nextLine(); string(line) != text {
			t.Errorf("read %d bytes of %d, %v", len(line), len(text), err)
		}
	}
	c = newStdio(strings.NewReader(text+strings.Repeat("x", maxMessage)), io.Discard, nil)
	if _, err := c.nextLine(); err == nil || err == io.EOF {
		t.Errorf("a line of more than maxMessage bytes: %v", err)
	}
}

// A client that has ended and reads no replies holds nothing up.
func TestEndWithoutReader(t *testing.T) {
	_, w := io.Pipe()
	if err := lineServer().Serve(t.Context(), strings.NewReader(hello), w); err != nil {
		t.Error(err)
	}
}

// Calls that the client has canceled have no reply, and the end waits for none.
func TestEndAfterCancel(t *testing.T) {
	c := newStdio(strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"tools/call"}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`), io.Discard, func() {})
	go func() {
		for range 2 {
			<-c.messages
		}
	}()
	if err := c.receive(); err != io.EOF || len(c.calls) != 0 {
		t.Errorf("%v, waits for %d calls", err, len(c.calls))
	}
	var out bytes.Buffer
	c.out = &out
	for _, name := range []string{"a", "b"} {
		id, err := jsonrpc.MakeID(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Result: json.RawMessage("{}")}); err != nil {
			t.Error(err)
		}
	}
	if got := out.String(); strings.Contains(got, `"a"`) || !strings.Contains(got, `"b"`) {
		t.Errorf("the replies are %s", got)
	}
}
