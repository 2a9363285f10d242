package server

import (
	"bufio"
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"wolffia/internal/jsontext"
	"wolffia/runtime"
	"wolffia/service"
)

// A streamed reply writes its own JSON. The output of a command can have 32 MiB, which
// escaped as JSON are up to 192 MiB: encoding/json would hold them in memory, several
// times (580 MiB, measured).
type streamed interface {
	encode(w *bufio.Writer) error
}

// encode writes v to w as JSON.
func encode(w *bufio.Writer, v any) error {
	if s, is := v.(streamed); is {
		return s.encode(w)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// A bashResult is the reply to executeBash. Invalid UTF-8 in the output is U+FFFD in the
// text, and then another field has the exact bytes.
type bashResult service.BashResult

func (r *bashResult) encode(w *bufio.Writer) error {
	_, _ = w.WriteString("{") // w returns the error at the last write
	if err := jsontext.WriteField(w, "stdout", r.Stdout); err != nil {
		return err
	}
	_, _ = w.WriteString(",")
	if err := jsontext.WriteField(w, "stderr", r.Stderr); err != nil {
		return err
	}
	return encodeRest(w, restOf(r))
}

// encodeRest ends a JSON object that has begun with the fields of rest.
func encodeRest(w *bufio.Writer, rest any) error {
	text, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	_ = w.WriteByte(',')
	_, err = w.Write(text[1:])
	return err
}

// A bashRest is what a reply says of a command beside its output.
type bashRest struct {
	ExitCode     int    `json:"exitCode"`
	Cwd          string `json:"cwd"`
	CwdBytes     []byte `json:"cwdBytes,omitempty"`
	DurationMS   int64  `json:"durationMs"`
	Truncated    bool   `json:"truncated"`
	SessionEnded bool   `json:"sessionEnded"`
	Restored     string `json:"restored,omitempty"`

	Denied     []runtime.Denial `json:"denied,omitempty"`
	DeniedMore int              `json:"deniedMore,omitempty"`

	Refused     []runtime.Refusal `json:"refused,omitempty"`
	RefusedMore int               `json:"refusedMore,omitempty"`

	Git        []string `json:"git,omitempty"`
	GitPending string   `json:"gitPending,omitempty"`
}

func restOf(r *bashResult) *bashRest {
	denied, refused, git := cmp.Or(r.Denied, &runtime.Denials{}), cmp.Or(r.Refused, &runtime.Refusals{}), cmp.Or(r.Git, &runtime.GitReport{})
	return &bashRest{
		r.ExitCode, r.Cwd, jsontext.Exact(r.Cwd), r.Duration.Milliseconds(), r.Truncated, r.SessionEnded, r.Restored,
		denied.List, denied.More, refused.List, refused.More, git.Lines, git.Pending,
	}
}

// A fileReply is the reply to readFile: text if the content is UTF-8.
type fileReply []byte

func (f fileReply) encode(w *bufio.Writer) error {
	if err := f.begin(w); err != nil {
		return err
	}
	return w.WriteByte('}')
}

// begin writes the beginning of a JSON object, with the content.
func (f fileReply) begin(w *bufio.Writer) error {
	encoding, write := "utf-8", jsontext.WriteText
	if !utf8.Valid(f) {
		encoding, write = "base64", jsontext.WriteBase64
	}
	_, _ = w.WriteString(`{"encoding":"` + encoding + `","content":`)
	return write(w, f)
}

// An errorReply is the reply to a failed call.
type errorReply struct {
	failure
	result any // up to the error; nil: none
}

func (r *errorReply) encode(w *bufio.Writer) error {
	b, err := json.Marshal(r.failure)
	if err != nil {
		return err
	}
	_, _ = w.WriteString(`{"error":`)
	_, err = w.Write(b)
	if r.result != nil && err == nil {
		_, _ = w.WriteString(`,"result":`)
		err = encode(w, r.result)
	}
	if err != nil {
		return err
	}
	return w.WriteByte('}')
}
