package server

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"wolffia/sandbox"
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

// writeText writes b as a JSON string. What is not UTF-8 is U+FFFD in it.
func writeText(w *bufio.Writer, b []byte) error {
	const most = 16 << 10 // bytes at a time
	var part bytes.Buffer
	enc := json.NewEncoder(&part)
	enc.SetEscapeHTML(false)
	_ = w.WriteByte('"') // the last write tells of errors
	for len(b) > 0 {
		n := len(b)
		if n > most {
			n = wholeRunes(b[:most])
		}
		part.Reset()
		if err := enc.Encode(string(b[:n])); err != nil {
			return err
		}
		_, _ = w.Write(part.Bytes()[1 : part.Len()-2]) // without quotes and line end
		b = b[n:]
	}
	return w.WriteByte('"')
}

// wholeRunes is how many bytes of b do not end within a character.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i > 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			return i
		}
	}
	return len(b)
}

// writeBase64 writes b as a JSON string of base64.
func writeBase64(w *bufio.Writer, b []byte) error {
	_ = w.WriteByte('"')
	e := base64.NewEncoder(base64.StdEncoding, w)
	_, _ = e.Write(b)
	_ = e.Close()
	return w.WriteByte('"')
}

// A bashResult is what a client is told of a command. What is not UTF-8 in its
// output is U+FFFD in the text, and then the exact bytes are beside it.
type bashResult sandbox.BashResult

func (r *bashResult) encode(w *bufio.Writer) error {
	for _, s := range []struct {
		name  string
		bytes []byte
	}{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		sep := ","
		if s.name == "stdout" {
			sep = "{"
		}
		_, _ = w.WriteString(sep + `"` + s.name + `":`)
		if err := writeText(w, s.bytes); err != nil {
			return err
		}
		if !utf8.Valid(s.bytes) {
			_, _ = w.WriteString(`,"` + s.name + `Bytes":`)
			if err := writeBase64(w, s.bytes); err != nil {
				return err
			}
		}
	}
	rest, err := json.Marshal(struct {
		ExitCode     int    `json:"exitCode"`
		Cwd          string `json:"cwd"`
		DurationMS   int64  `json:"durationMs"`
		Truncated    bool   `json:"truncated"`
		SessionEnded bool   `json:"sessionEnded"`
		Restored     string `json:"restored,omitempty"`
	}{r.ExitCode, r.Cwd, r.Duration.Milliseconds(), r.Truncated, r.SessionEnded, r.Restored})
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
	encoding, write := "utf-8", writeText
	if !utf8.Valid(f) {
		encoding, write = "base64", writeBase64
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
