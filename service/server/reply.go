package server

import (
	"bufio"
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"wolffia/internal/jsontext"
	"wolffia/ops"
	"wolffia/runtime"
)

// A streamed reply writes its own JSON, in pieces.
type streamed interface {
	encode(w *bufio.Writer) error
}

// encode writes v to w as JSON.
func encode(w *bufio.Writer, v any) error {
	switch v := v.(type) {
	case streamed:
		return v.encode(w)
	case *runtime.Result:
		return ops.WriteResult(w, nil, ops.WithoutHost(v), shellOf(v))
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
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

// A shellReply has fields of a result by their older names: those of its session, and whether output was dropped.
type shellReply struct {
	Cwd          string `json:"cwd"`
	CwdBytes     []byte `json:"cwdBytes,omitempty"`
	Truncated    bool   `json:"truncated"`
	SessionEnded bool   `json:"sessionEnded"`
	Restored     string `json:"restored,omitempty"`
}

func shellOf(r *runtime.Result) shellReply {
	s := cmp.Or(r.Session, &runtime.SessionStatus{})
	return shellReply{s.Cwd, jsontext.Exact(s.Cwd), r.Truncated(), s.Ended, s.Restored}
}

// An endReply is a result without its output.
type endReply struct {
	*ops.Result
	shellReply
}

func endOf(r *runtime.Result) endReply { return endReply{ops.ResultOf(ops.WithoutHost(r)), shellOf(r)} }

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
