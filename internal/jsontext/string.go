package jsontext

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Longest returns where the longest string of a JSON text is, without its quotes.
func Longest(text []byte) (from, to int) {
	for at := 0; ; {
		begin := bytes.IndexByte(text[at:], '"')
		if begin < 0 {
			return from, to
		}
		at += begin + 1
		end := at
		for {
			n := bytes.IndexByte(text[end:], '"')
			if n < 0 {
				return from, to
			}
			slashes := 0
			for end += n; end-1-slashes >= at && text[end-1-slashes] == '\\'; {
				slashes++
			}
			if slashes%2 == 0 {
				break
			}
			end++
		}
		if end-at > to-from {
			from, to = at, end
		}
		at = end + 1
	}
}

// Unquote returns the text that the inside of a JSON string has, in its memory. ok is false if it is no JSON.
func Unquote(s []byte) (text []byte, ok bool) {
	if !utf8.Valid(s) {
		return nil, false
	}
	text = s[:0]
	for len(s) > 0 {
		if s[0] < ' ' {
			return nil, false
		}
		if s[0] != '\\' {
			text, s = append(text, s[0]), s[1:]
			continue
		}
		if len(s) < 2 {
			return nil, false
		}
		if i := bytes.IndexByte([]byte(`"\/bfnrt`), s[1]); i >= 0 {
			text, s = append(text, "\"\\/\b\f\n\r\t"[i]), s[2:]
			continue
		}
		r := escaped(s)
		if r < 0 {
			return nil, false
		}
		if s = s[6:]; utf16.IsSurrogate(r) {
			if r = utf16.DecodeRune(r, escaped(s)); r != utf8.RuneError {
				s = s[6:]
			}
		}
		text = utf8.AppendRune(text, r)
	}
	return text, true
}

// escaped returns the character that s begins with as \uXXXX, or -1.
func escaped(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
