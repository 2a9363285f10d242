package ops_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"wolffia/internal/test/resulttest"
	"wolffia/ops"
	"wolffia/runtime"
)

func TestWriteResult(t *testing.T) {
	resulttest.Check(t, func(w io.Writer, r *runtime.Result) (any, error) {
		_, err := io.WriteString(w, write(t, r))
		return nil, err
	}, nil)
}

func TestWithoutHost(t *testing.T) {
	r := &runtime.Result{
		Denied: []runtime.Denial{{Path: "a", Source: "/home/ann/x/policy.yaml:3"}}, Refused: []runtime.Refusal{{Name: "b", PID: 7}},
	}
	got := ops.WithoutHost(r)
	if d := got.Denied[0]; d.Source != "policy.yaml:3" || d.Path != "a" || got.Refused[0].PID != 0 || got.Refused[0].Name != "b" {
		t.Errorf(`ops.WithoutHost: got %+v; want d.Source == "policy.yaml:3" and d.Path == "a" and got.Refused[0].PID == 0 and got.Refused[0].Name == "b"`,
			got)
	}
	if r.Denied[0].Source == "policy.yaml:3" || r.Refused[0].PID == 0 {
		t.Errorf("the original has changed: %+v", r)
	}
}

// write returns the JSON of a result, with members before and after it.
func write(t *testing.T, r *runtime.Result) string {
	t.Helper()
	var b strings.Builder
	w := bufio.NewWriter(&b)
	if err := ops.WriteResult(w, struct{ Before string }{"first"}, r, struct{ After map[string]int }{map[string]int{"last": 1}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The JSON is one object. What is not UTF-8 is in it twice.
func TestResultIsAnObject(t *testing.T) {
	text := write(t, &runtime.Result{ExitCode: 3, Stdout: []byte("a\xff"), Stderr: []byte("e"), Session: &runtime.SessionStatus{Cwd: "/\xff"}})
	var got struct {
		ops.Document
		Before string
		After  map[string]int
	}
	got.Result.Result = new(runtime.Result)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("json.Unmarshal: got err %v, text %s; want err == nil", err, text)
	}
	if got.ExitCode != 3 || got.Stdout != "a\ufffd" || string(got.StdoutBytes) != "a\xff" || got.Stderr != "e" || got.StderrBytes != nil ||
		got.Before != "first" || got.After["last"] != 1 || string(got.Document.Session.CwdBytes) != "/\xff" {
		t.Errorf(`write: got %s; want got.ExitCode == 3 and got.Stdout == %q and got.StdoutBytes == %q and got.Stderr == "e" and got.StderrBytes == nil and got.Before == "first" and got.After["last"] == 1 and got.Document.Session.CwdBytes == %q`,
			text, "a\ufffd", "a\xff", "/\xff")
	}
	const want = `{"Before":"first","stdout":"","stderr":"","exitCode":0,"signal":0,"timedOut":false,` +
		`"stdoutDropped":0,"stderrDropped":0,"durationMs":0,"After":{"last":1}}`
	if text := write(t, new(runtime.Result)); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
