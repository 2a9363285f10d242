package gitcopy

import (
	"path/filepath"
	"strings"

	"wolffia/internal/git/gitconfig"
)

// Shown returns the content that a copy has for a file of the host's git directory (config,
// hooks/NAME, ...) with that content; nil: the copy does not have the file. credentials is as in
// Options. away says that the copy stands for a git directory out of the codebase.
func Shown(name string, content []byte, credentials, away bool) []byte {
	switch {
	case name == "config" || name == "config.worktree":
		plain, _ := plainConfig(string(content), credentials,
			func(s *gitconfig.Setting) bool { return away && s.Name == "core.worktree" })
		return []byte(plain)
	case strings.HasPrefix(name, "hooks/") && strings.HasSuffix(name, ".sample"):
		return nil
	}
	return content
}

// plainConfig returns the text of a configuration without credentials, unless keep is set, and
// without the settings for which leave returns true. If the text has none of these, it returns the
// text unchanged. includes are the relative paths that the text includes.
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
		case leave(&s), s.Name == "core.fsmonitor", s.Name == "core.fsmonitorhookversion": // what watches the host's working tree
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
	return gitconfig.Format(kept), includes
}
