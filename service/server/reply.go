package server

import (
	"bufio"
	"encoding/json"
	"unicode/utf8"

	"wolffia/internal/jsontext"
	"wolffia/service"
)

// A streamed reply writes its own JSON: what a sandbox says can be long, and six
// times as long in JSON. So it is never there as a whole.
type streamed interface {
	encode(w *bufio.Writer) error
}

// encode writes v as JSON.
func encode(w *bufio.Writer, v any) error {
	if s, is := v.(streamed); is {
		return s.encode(w)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// A bashResult is what a client is told of a command. What is not UTF-8 in its
// output is U+FFFD in the text, and then the exact bytes are beside it.
type bashResult service.BashResult

func (r *bashResult) encode(w *bufio.Writer) error {
	_, _ = w.WriteString("{") // the last write tells of errors
	if err := jsontext.WriteField(w, "stdout", r.Stdout); err != nil {
		return err
	}
	_, _ = w.WriteString(",")
	if err := jsontext.WriteField(w, "stderr", r.Stderr); err != nil {
		return err
	}
	rest, err := json.Marshal(struct {
		ExitCode     int    `json:"exitCode"`
		Cwd          string `json:"cwd"`
		CwdBytes     []byte `json:"cwdBytes,omitempty"`
		DurationMS   int64  `json:"durationMs"`
		Truncated    bool   `json:"truncated"`
		SessionEnded bool   `json:"sessionEnded"`
		Restored     string `json:"restored,omitempty"`
	}{r.ExitCode, r.Cwd, jsontext.Exact(r.Cwd), r.Duration.Milliseconds(), r.Truncated, r.SessionEnded, r.Restored})
	if err != nil {
		return err
	}
	_ = w.WriteByte(',')
	_, err = w.Write(rest[1:])
	return err
}

// A fileReply is a file's content: text if it is UTF-8.
type fileReply []byte

func (f fileReply) encode(w *bufio.Writer) error {
	encoding, write := "utf-8", jsontext.WriteText
	if !utf8.Valid(f) {
		encoding, write = "base64", jsontext.WriteBase64
	}
	_, _ = w.WriteString(`{"encoding":"` + encoding + `","content":`)
	if err := write(w, f); err != nil {
		return err
	}
	return w.WriteByte('}')
}

// An errorReply is the one envelope of errors.
type errorReply struct {
	failure
	result any // what was done or said before it; nil: nothing is known
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
