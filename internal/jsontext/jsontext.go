// Package jsontext writes long text as JSON in pieces, without a second copy of it. It
// also checks JSON strictly.
package jsontext

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// WriteField writes b as the member name of an object. Invalid UTF-8 becomes U+FFFD, and
// then the member nameBytes follows, with the exact bytes in base64.
func WriteField(w *bufio.Writer, name string, b []byte) error {
	_, _ = w.WriteString(`"` + name + `":`) // w returns the error at the last write
	if err := WriteText(w, b); err != nil {
		return err
	}
	if utf8.Valid(b) {
		return nil
	}
	_, _ = w.WriteString(`,"` + name + `Bytes":`)
	return WriteBase64(w, b)
}

// Exact returns the bytes of s for a member nameBytes, as WriteField writes it: nil if s
// is valid UTF-8.
func Exact(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// WriteText writes b as a JSON string. Invalid UTF-8 becomes U+FFFD.
func WriteText(w *bufio.Writer, b []byte) error {
	const most = 16 << 10 // bytes at a time
	var part bytes.Buffer
	enc := json.NewEncoder(&part)
	enc.SetEscapeHTML(false)
	_ = w.WriteByte('"') // w returns the error at the last write
	for len(b) > 0 {
		n := len(b)
		if n > most {
			n = WholeRunes(b[:most])
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

// WholeRunes returns the length of b without an incomplete character at its end.
func WholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			return i
		}
	}
	return len(b)
}

// WriteBase64 writes b as a JSON string of base64.
func WriteBase64(w *bufio.Writer, b []byte) error {
	_ = w.WriteByte('"')
	e := base64.NewEncoder(base64.StdEncoding, w)
	_, _ = e.Write(b)
	_ = e.Close()
	return w.WriteByte('"')
}
