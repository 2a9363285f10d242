package main

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

func TestPassLanguageClient(t *testing.T) {
	message := func(text string) string { return "Content-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text }
	const initialize = `{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"processId":4711,"rootUri":"file:///a"}}`
	const other = `{"jsonrpc":"2.0","method":"x","params":{"processId":4711}}`
	for in, want := range map[string]string{
		message(initialize) + message(other): message(strings.Replace(initialize, "4711", "null", 1)) + message(other),
		message(other):                       message(other),
		message("{"):                         message("{"),
		`{"jsonrpc":"2.0","method":"initialize","params":{"processId":1}}` + "\n": `{"jsonrpc":"2.0","method":"initialize","params":{"processId":1}}` + "\n",
		"": "", "Content": "Content",
	} {
		var out bytes.Buffer
		if err := passLanguageClient(&out, strings.NewReader(in)); err != nil || out.String() != want {
			t.Errorf("passLanguageClient(%q) = %q, %v, want %q", in, out.String(), err, want)
		}
	}
	for _, in := range []string{"Content-Length: 99999999\r\n\r\n", "Content-Length: 5\r\n\r\n{}"} {
		if err := passLanguageClient(new(bytes.Buffer), strings.NewReader(in)); err == nil {
			t.Errorf("passLanguageClient(%q): no error", in)
		}
	}
}
