package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/filecall"
	"wolffia/runtime"
)

// A liar is a runtime whose sandbox answers file operations with any bytes.
type liar struct {
	runtime.RuntimeWithSession // the other calls are not made
	answer                     []byte
	code                       int
}

func (l *liar) StartProcess(context.Context, string, *runtime.Command) (runtime.Process, error) {
	p := &lying{ended: make(chan struct{})}
	var in *io.PipeReader
	var out *io.PipeWriter
	in, p.in = io.Pipe()
	p.out, out = io.Pipe()
	go func() { // ends with its input
		defer close(p.ended)
		defer in.Close()
		defer out.Close()
		asked, reply := filecall.NewReceiver(in), filecall.NewSender(out)
		var q filecall.Request
		for asked.JSON(&q, filecall.MaxRequest) == nil && l.code == 0 && reply.Frame([]byte(l.answer)) == nil {
		}
	}()
	return p, nil
}

// A lying is a process of a liar.
type lying struct {
	runtime.Process // the other calls are not made
	in              *io.PipeWriter
	out             *io.PipeReader
	ended           chan struct{}
}

func (p *lying) Stdin() io.WriteCloser { return p.in }
func (p *lying) Stdout() io.Reader     { return p.out }
func (p *lying) Stderr() io.Reader     { return bytes.NewReader(bytes.Repeat([]byte("\xff"), 1000)) }

func (p *lying) Wait(context.Context) (runtime.Result, error) {
	<-p.ended
	return runtime.Result{ExitCode: 1}, nil
}

func (p *lying) Close() error { return errors.Join(p.in.Close(), p.out.Close()) }

func (l *liar) Get(context.Context, string) (*runtime.Sandbox, error) {
	return &runtime.Sandbox{ID: "aaaaaaaaaaaa", State: runtime.StateRunning}, nil
}

// connect serves l to a client.
func connect(t testing.TB, l *liar) *sdk.ClientSession {
	t.Helper()
	s := New(&Options{
		Runtime: l, Session: "mcp", Version: "test", Allow: func(string) string { return "wolffia policy add " }, AllowHost: func(string) string { return "wolffia network allow " },
		Open:    func(context.Context) (string, error) { return "aaaaaaaaaaaa", nil },
		Inspect: func(context.Context, string) (*Details, error) { return &Details{}, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ourIn, ourOut) }() // ends with the client
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &sdk.IOTransport{Reader: theirIn, Writer: theirOut}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = theirOut.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		cancel()
		_ = theirIn.Close()
		_ = c.Close()
	})
	return c
}

// calls are calls of each tool that works on files.
var calls = map[string]map[string]any{
	"read_file": {"path": "f", "max_bytes": 1000}, "write_file": {"path": "f", "content": "x"}, "edit_file": {"path": "f", "old_string": "a", "new_string": "b"},
	"list_dir": {}, "glob": {"pattern": "*"}, "grep": {"pattern": "x"},
}

// Whatever the process inside answers becomes a result of bounded size, or an error.
func TestHostileAnswers(t *testing.T) {
	l := &liar{}
	c := connect(t, l)
	for _, answer := range []string{
		"", "null", "[]", "{", `{"text":1}`, `{"first":-5,"last":9223372036854775807,"total":-1,"text":"a\nb","next":-1,"truncated":true}`,
		`{"err":{"kind":"?","message":"` + strings.Repeat("e", 10_000) + `"}}`, `{"binary":true,"size":-1,"data":"AAAA"}`,
		`{"lines":[],"count":-1,"size":-1}`, `{"entries":[{"name":"\u0000","type":"?"},{}],"names":["\ud800"],"matches":[{"line":-1},{"line":-9}]}`,
		`{"text":"` + strings.Repeat("x", 20<<20) + `"}`, `{"names":[` + strings.Repeat(`"",`, 1<<20) + `""]}`, strings.Repeat("[", 1<<20),
	} {
		for _, code := range []int{0, 1} {
			l.answer, l.code = []byte(answer), code
			for tool, args := range calls {
				res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
				if err != nil {
					t.Fatalf("%s, %.50s: %v", tool, answer, err)
				}
				if text, err := json.Marshal(res); err != nil || len(text) > 20*MaxOutput {
					t.Errorf("%s, %.50s: a result of %d bytes, %v", tool, answer, len(text), err)
				}
				if code != 0 && !res.IsError || len(answer) < 2 && !res.IsError {
					t.Errorf("%s, %.50s: exit code %d is no error", tool, answer, code)
				}
			}
		}
	}
	l.answer, l.code = []byte(`{"text":"`+strings.Repeat("x", 1<<20)+`"}`), 0
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "read_file", Arguments: calls["read_file"]})
	if text, _ := json.Marshal(res); err != nil || !res.IsError || !strings.Contains(string(text), "more than was asked for") {
		t.Errorf(`json.Marshal: got text %.200s, err %v; want err == nil and res.IsError and text contains "more than was asked for"`,
			text, err)
	}
}

// FuzzAnswer is TestHostileAnswers with any answer.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"path":"/f","text":"a\nb","first":1,"last":2,"total":2,"next":3}`)
	f.Add(`{"entries":[{"name":"a","type":"file","size":1}],"names":["a"],"matches":[{"path":"f","line":1,"text":"x"}],"truncated":true}`)
	f.Add(`{"error":{"kind":"missing","message":"no such file"}}`)
	l := &liar{}
	c := connect(f, l)
	f.Fuzz(func(t *testing.T, answer string) {
		l.answer = []byte(answer)
		for tool, args := range calls {
			if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args}); err != nil {
				t.Errorf("%s: %v", tool, err)
			}
		}
	})
}

// A sandbox that cannot be made is an error of each call, and tried again.
func TestOpenAgain(t *testing.T) {
	failures := 0
	h := newHolder(t.Context(), func(context.Context) (string, error) {
		if failures++; failures < 3 {
			return "", errors.New("no")
		}
		return "id", nil
	})
	for range 2 {
		if _, err := h.get(t.Context()); err == nil || err.Error() != "no" {
			t.Error(err)
		}
	}
	a, err := h.get(t.Context())
	if err != nil || a.id != "id" {
		t.Error(a, err)
	}
	if b, err := h.get(t.Context()); err != nil || b != a {
		t.Error("it was made twice", err)
	}
	h.lose(a)
	if b, err := h.get(t.Context()); err != nil || b == a {
		t.Error("a lost one is returned", err)
	}
	h.wait()
}
