package gitcopy

import (
	"path/filepath"
	"strings"

	"wolffia/internal/gitconfig"
)

// plainConfig returns the text of a configuration without credentials, unless keep is set, and without the settings for
// which leave returns true. It is text itself if that has none of them. includes are the relative paths that it includes.
func plainConfig(text string, keep bool, leave func(*gitconfig.Setting) bool) (plain string, includes []string) {
	all, err := gitconfig.Parse(text)
	if err != nil {
		if keep {
			return text, nil
		}
		return "", nil // git refuses the whole file
	}
	var kept []gitconfig.Setting
	changed := false
	for _, s := range all {
		if sec := s.Section(); (sec == "include" || sec == "includeif") && s.Key() == "path" && filepath.IsLocal(s.Value) {
			includes = append(includes, filepath.Clean(s.Value))
		}
		switch {
		case leave(&s):
			changed = true
			continue
		case !keep && (s.Section() == "credential" || s.Key() == "extraheader"): // a helper can be a script with a password
			changed = true
			continue
		case !keep && s.Credential():
			changed = true
			plain, ok := s.WithoutCredential()
			if !ok {
				continue
			}
			s = plain
		}
		kept = append(kept, s)
	}
	if !changed {
		return text, includes
	}
	return format(kept), includes
}

var (
	quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	valued = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
)

// format returns the text of a configuration with the settings, as git config would write them.
func format(all []gitconfig.Setting) string {
	var b strings.Builder
	for _, s := range all {
		b.WriteString("[" + s.Section())
		if sub, ok := s.Sub(); ok {
			b.WriteString(` "` + quoted.Replace(sub) + `"`)
		}
		b.WriteString("]\n\t" + s.Key())
		if !s.Bare {
			b.WriteString(` = "` + valued.Replace(s.Value) + `"`)
		}
		b.WriteString("\n")
	}
	return b.String()
}
