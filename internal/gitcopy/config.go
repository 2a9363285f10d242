package gitcopy

import (
	"strings"

	"wolffia/internal/gitconfig"
)

// Shown returns what a copy has of a file of the host's git directory (config, hooks/NAME, ...) with that content; nil: it does not have the
// file. credentials is as in Options; away tells that the copy stands for a git directory out of the codebase.
func Shown(name string, content []byte, credentials, away bool) []byte {
	switch {
	case name == "config" || name == "config.worktree":
		return []byte(plainConfig(string(content), credentials, func(s *gitconfig.Setting) bool { return away && s.Name == "core.worktree" }))
	case strings.HasPrefix(name, "hooks/") && strings.HasSuffix(name, ".sample"):
		return nil
	}
	return content
}

// plainConfig returns the text of a configuration without credentials, unless keep is set, and without the settings for
// which leave returns true. It is text itself if that has none of them.
func plainConfig(text string, keep bool, leave func(*gitconfig.Setting) bool) string {
	all, err := gitconfig.Parse(text)
	if err != nil {
		if keep {
			return text
		}
		return "" // git refuses the whole file
	}
	var kept []gitconfig.Setting
	changed := false
	for _, s := range all {
		switch {
		case leave(&s):
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
		return text
	}
	return format(kept)
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
