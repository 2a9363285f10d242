// Package jsontext writes bytes that are mostly text as JSON, in pieces, so that a long
// text is never there as a whole a second time.
package jsontext

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// WriteField writes b as the member called name of an object; what is not UTF-8 is
// U+FFFD in it, and then the exact bytes follow, in base64, as the member nameBytes.
func WriteField(w *bufio.Writer, name string, b []byte) error {
	_, _ = w.WriteString(`"` + name + `":`) // the last write tells of errors
	if err := WriteText(w, b); err != nil {
		return err
	}
	if utf8.Valid(b) {
		return nil
	}
	_, _ = w.WriteString(`,"` + name + `Bytes":`)
	return WriteBase64(w, b)
}

// Exact is what stands beside the text s, as WriteField does it: its bytes if they are
// not UTF-8, else nil.
func Exact(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// WriteText writes b as a JSON string. What is not UTF-8 is U+FFFD in it.
func WriteText(w *bufio.Writer, b []byte) error {
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

// WriteBase64 writes b as a JSON string of base64.
func WriteBase64(w *bufio.Writer, b []byte) error {
	_ = w.WriteByte('"')
	e := base64.NewEncoder(base64.StdEncoding, w)
	_, _ = e.Write(b)
	_ = e.Close()
	return w.WriteByte('"')
}
