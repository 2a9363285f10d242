// Package shellword writes words for a POSIX shell.
package shellword

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns s as one word. A word of harmless characters is itself, so that it can be an alias.
func Quote(s string) string {
	harmful := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("%+,-./:@_", r)
	}
	if s != "" && !strings.ContainsFunc(s, harmful) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Join returns words as a command line.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
