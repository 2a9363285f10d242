package gitconfig

import "strings"

// Format returns settings as the text of a configuration, in their order. Their values have no
// NUL. It skips a setting without a section and a key.
func Format(settings []Setting) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
	var b strings.Builder
	last := ""
	for i := range settings {
		s := &settings[i]
		header := s.Section()
		if sub, ok := s.Sub(); ok {
			header += ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(sub) + `"`
		}
		if s.Section() == "" || s.Key() == "" {
			continue
		}
		if header != last {
			b.WriteString("[" + header + "]\n")
			last = header
		}
		b.WriteString("\t" + s.Key())
		if !s.Bare {
			b.WriteString(` = "` + quote.Replace(s.Value) + `"`)
		}
		b.WriteString("\n")
	}
	return b.String()
}
