package perm

import "path"

// SourceName returns the Source of a rule without the directories of a file: for those that may not
// know paths of the host.
func SourceName(source string) string {
	if path.IsAbs(source) {
		return path.Base(source)
	}
	return source
}
