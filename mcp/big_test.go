package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// message is a call of a tool whose content, in JSON, is text.
func message(tool, text string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"path":"f","content":"` + text + `"}}}`
}

func TestCut(t *testing.T) {
	long := strings.Repeat("x", bigMessage)
	for _, c := range []struct{ name, text string }{
		{"plain", long},
		{"escapes", long + `\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00\ud800\ud800\u0041\\`},
		{"characters", strings.Repeat("ä€😀", bigMessage/8)},
	} {
		rest, content, ok := cut([]byte(message("write_file", c.text)), "NAME")
		var want string
		if err := json.Unmarshal([]byte(`"`+c.text+`"`), &want); err != nil || !ok || string(content) != want {
			t.Errorf("%s: %v, ok %v, %d bytes, want %d", c.name, err, ok, len(content), len(want))
		}
		if got := string(rest); got != message("write_file", "NAME") {
			t.Errorf("%s: the rest is %.200s", c.name, got)
		}
	}
	for _, body := range []string{
		"", `"`, `"\`, `{"a":"` + long, message("bash", long), message("write_file", long[:100]), "[" + message("write_file", long) + "]",
		strings.Replace(message("write_file", "x"), `"f"`, `"`+long+`"`, 1),
	} {
		if rest, content, ok := cut([]byte(body), "NAME"); !ok || content != nil || string(rest) != body {
			t.Errorf("%.100s: it was cut", body)
		}
	}
	for _, text := range []string{long + "\xff", long + "\n", long + `\x`, long + `\u12`, long + `\u00zz`} {
		if _, _, ok := cut([]byte(message("write_file", text)), "NAME"); ok {
			t.Errorf("%q is taken", text[bigMessage:])
		}
	}
}

func TestTurnstile(t *testing.T) {
	x := newTurnstile()
	leave, err := x.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.enter(over, "a"); err == nil {
		t.Error("a second one of a party")
	}
	var others []func()
	for _, party := range []string{"b", "c", "d"} {
		leave, err := x.enter(t.Context(), party)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, leave)
	}
	if _, err := x.enter(over, "e"); err == nil {
		t.Error("too many of all parties")
	}
	leave()
	leave()
	if leave, err = x.enter(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	for _, leave := range append(others, leave) {
		leave()
	}
	if len(x.of) != 0 || len(x.all) != 0 {
		t.Errorf("left: %v, %d", x.of, len(x.all))
	}
}

func TestDecodeArgs(t *testing.T) {
	type in struct {
		Must  string   `json:"must"`
		Count *int     `json:"count,omitempty"`
		Flag  bool     `json:"flag,omitempty"`
		Names []string `json:"names,omitempty"`
	}
	for text, want := range map[string]string{
		`{"must":"a"}`: "", `{"must":"a","count":null,"flag":null,"names":null}`: "", `{"must":"a","count":1,"flag":true,"names":["x"]}`: "",
		"": "argument must is missing", "null": "argument must is missing", `{"must":null}`: "argument must is missing", "[]": "arguments: they must be an object",
		`{"must":"a","MUST":"b"}`:     `argument "MUST" does not exist: the arguments are must, count, flag, names`,
		`{"must":"a","count":"5000"}`: `argument count is "5000": it must be an integer`, `{"must":"a","count":1.5}`: "argument count is 1.5: it must be an integer",
		`{"must":1}`: "argument must is 1: it must be a text", `{"must":"a","flag":1}`: "argument flag is 1: it must be true or false",
		`{"must":"a","names":[1]}`: "argument names is [1]: it must be a list, each a text",
	} {
		_, err := decodeArgs[in]([]byte(text))
		if got := errText(err); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	got, err := decodeArgs[in]([]byte(`{"must":"a","count":0,"names":["x"]}`))
	if err != nil || got.Must != "a" || got.Count == nil || len(got.Names) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
