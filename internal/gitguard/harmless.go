package gitguard

import (
	"slices"
	"strings"

	"wolffia/internal/gitconfig"
)

// ofRepository are the sections whose settings describe one repository, or are of no use inside: rerere's records
// cannot be written there.
var ofRepository = []string{"extensions", "gc", "index", "lfs", "maintenance", "pack", "rerere", "submodule"}

// Harmless reports whether a setting of a user's own configuration names no program, path,
// address or driver, and does not describe one repository.
func Harmless(s *gitconfig.Setting) bool {
	if _, has := s.Sub(); has || hasControl(s.Value) || slices.Contains(ofRepository, s.Section()) || s.Name == "core.repositoryformatversion" {
		return false
	}
	valid, ok := free[s.Name]
	return ok && valid(s)
}

// hasControl reports whether s has ASCII control characters.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f })
}
