package server

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
	"wolffia/service"
)

// What is written in pieces is what encoding/json would write of the whole.
func TestEncode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "<&>", "\x00", "\n", "\"\\", "ä", "€", "😀", "\xff", "\xe2\x82", "\xf0\x9f\x98", "\x80", "\u2028", strings.Repeat("x", 1000), strings.Repeat("€", 700), strings.Repeat("\xf0\x9f", 300)}
	for range 300 {
		var text []byte
		for size := random.IntN(70 << 10); len(text) < size; {
			text = append(text, pieces[random.IntN(len(pieces))]...)
		}
		checkReply(t, text)
	}
	for cut := range 8 { // all kinds of characters over the border of a piece
		for _, s := range pieces {
			checkReply(t, append(bytes.Repeat([]byte("x"), 16<<10-cut), s+s+"end"...))
		}
	}
}

func checkReply(t *testing.T, text []byte) {
	t.Helper()
	r := &runtime.Result{
		Stdout: text, Stderr: []byte("e"), ExitCode: 3, Duration: 5 * time.Millisecond, Denied: []runtime.Denial{{Op: "write", Path: "a"}}, DeniedMore: 2,
		Session: &runtime.SessionStatus{Cwd: "/ä", Restored: "full"},
	}
	var got struct {
		Result struct {
			Stdout, Stderr, Cwd, Restored string
			StdoutBytes, StderrBytes      []byte
			ExitCode, DurationMS          int
			Denied                        []runtime.Denial
			DeniedMore                    int
		}
		Error failure
	}
	decodeReply(t, &errorReply{failure{Code: "c"}, r}, &got)
	want := strings.ToValidUTF8(string(text), "\ufffd")
	if !utf8.Valid(text) { // each byte is one, not each run of them
		want = string([]rune(string(text)))
	}
	g := got.Result
	if g.Stdout != want || (g.StdoutBytes == nil) != utf8.Valid(text) || g.StdoutBytes != nil && !bytes.Equal(g.StdoutBytes, text) {
		t.Fatalf("%d bytes, valid %v: %d of text, want %d; %d bytes", len(text), utf8.Valid(text), len(g.Stdout), len(want), len(g.StdoutBytes))
	}
	if len(g.Denied) != 1 || g.Denied[0].Path != "a" || g.DeniedMore != 2 {
		t.Fatalf("denied: %+v", got)
	}
	if g.Stderr != "e" || g.StderrBytes != nil || g.ExitCode != 3 || g.Cwd != "/ä" || g.DurationMS != 5 || g.Restored != "full" || got.Error.Code != "c" {
		t.Fatalf(`got %+v; want g.Stderr == "e" and g.StderrBytes == nil and g.ExitCode == 3 and g.Cwd == %q and g.DurationMS == 5 and g.Restored == "full" and got.Error.Code == "c"`,
			got, "/ä")
	}
	var file service.File
	decodeReply(t, fileReply(text), &file)
	if b, err := file.Bytes(); err != nil || !bytes.Equal(b, text) || (file.Encoding == "base64") == utf8.Valid(text) {
		t.Fatalf("a file: %s, %v", file.Encoding, err)
	}
	if file.Encoding == "base64" && file.Content != base64.StdEncoding.EncodeToString(text) {
		t.Fatal("a file in base64")
	}
}

func TestResultIsWhole(t *testing.T) {
	resulttest.Check(t, func(w io.Writer, r *runtime.Result) (any, error) {
		_, err := io.WriteString(w, encoded(t, r))
		return nil, err
	}, map[string]string{"Refused.PID": "of the host"})
	resulttest.Check(t, func(_ io.Writer, r *runtime.Result) (any, error) { return endOf(r), nil }, map[string]string{
		"Stdout": "sent before", "Stderr": "sent before", "Refused.PID": "of the host",
	})
}

func decodeReply(t *testing.T, reply, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(encoded(t, reply)), to); err != nil {
		t.Fatal(err)
	}
}

func encoded(t *testing.T, reply any) string {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := encode(w, reply); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
