package jsontext

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzUnquote compares with the parser of the standard library.
func FuzzUnquote(f *testing.F) {
	f.Add(`a\"\u00e4\ud83d\ude00\ud800x\ud800\u0041\n`)
	f.Fuzz(func(t *testing.T, text string) {
		if from, to := Longest([]byte(`"` + text + `"`)); from != 1 || to != len(text)+1 || !utf8.ValidString(text) {
			return // it is not the inside of one string
		}
		var want string
		err := json.Unmarshal([]byte(`"`+text+`"`), &want)
		if got, ok := Unquote([]byte(text)); ok != (err == nil) || ok && string(got) != want {
			t.Errorf("%q: got %q, %v; want %q, %v", text, got, ok, want, err)
		}
	})
}
