package gitscan

import "wolffia/internal/gitconfig"

// A setting is one line of a git configuration. Section and key are lower case,
// the subsection is as written; a key without a value has the value "".
type setting struct{ section, sub, key, value string }

// parseConfig reads a git configuration. git refuses a file with an error in it; here the
// line is skipped.
func parseConfig(text string) []setting {
	settings, _ := gitconfig.Parse(text)
	all := make([]setting, len(settings))
	for i, s := range settings {
		sub, _ := s.Sub()
		all[i] = setting{s.Section(), sub, s.Key(), s.Value}
	}
	return all
}

// lower returns s with its ASCII letters in lower case, as git has it.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}
