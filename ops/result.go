package ops

import (
	"bufio"
	"encoding/json"
	"slices"

	"wolffia/internal/jsontext"
	"wolffia/perm"
	"wolffia/runtime"
)

// A Result is a [runtime.Result] in JSON, but for its output.
type Result struct {
	*runtime.Result
	DurationMS int64    `json:"durationMs"`
	Session    *Session `json:"session,omitempty"` // as in runtime.Result
}

// A Session is a [runtime.SessionStatus] in JSON, where Cwd must be UTF-8.
type Session struct {
	*runtime.SessionStatus
	CwdBytes []byte `json:"cwdBytes,omitempty"` // the exact bytes, if Cwd is not UTF-8
}

// ResultOf returns r as JSON has it.
func ResultOf(r *runtime.Result) *Result {
	x := &Result{Result: r, DurationMS: r.Duration.Milliseconds()}
	if s := r.Session; s != nil {
		x.Session = &Session{s, jsontext.Exact(s.Cwd)}
	}
	return x
}

// WithoutHost returns a copy of r without what is of the host, for callers that may be elsewhere:
// directories of files with rules, and numbers of processes.
func WithoutHost(r *runtime.Result) *runtime.Result {
	own := *r
	own.Denied, own.Refused = slices.Clone(r.Denied), slices.Clone(r.Refused)
	for i := range own.Denied {
		own.Denied[i].Source = perm.SourceName(own.Denied[i].Source)
	}
	for i := range own.Refused {
		own.Refused[i].PID = 0
	}
	return &own
}

// A Document has the fields that [WriteResult] writes between before and after.
type Document struct {
	Stdout      string `json:"stdout"`
	StdoutBytes []byte `json:"stdoutBytes"`
	Stderr      string `json:"stderr"`
	StderrBytes []byte `json:"stderrBytes"`
	Result
}

// WriteResult writes a JSON object with the fields of before, of r and of after; before and after
// are structs, or nil. Invalid UTF-8 in the output is U+FFFD in the text, and then another field
// has the exact bytes. The output is written in pieces: it can have 32 MiB, which escaped as JSON
// are up to 192 MiB, and encoding/json would hold them in memory several times (580 MiB,
// measured).
func WriteResult(w *bufio.Writer, before any, r *runtime.Result, after any) error {
	first, err := members(before)
	if err != nil {
		return err
	}
	rest, err := members(ResultOf(r))
	if err != nil {
		return err
	}
	last, err := members(after)
	if err != nil {
		return err
	}
	_ = w.WriteByte('{') // w returns the error at the last write
	if len(first) > 0 {
		_, _ = w.Write(append(first, ','))
	}
	if err := jsontext.WriteField(w, "stdout", r.Stdout); err != nil {
		return err
	}
	_ = w.WriteByte(',')
	if err := jsontext.WriteField(w, "stderr", r.Stderr); err != nil {
		return err
	}
	for _, text := range [][]byte{rest, last} {
		if len(text) > 0 {
			_ = w.WriteByte(',')
			_, _ = w.Write(text)
		}
	}
	return w.WriteByte('}')
}

// members returns the JSON of a struct, or of nil, without its braces.
func members(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return text[1 : len(text)-1], nil
}
