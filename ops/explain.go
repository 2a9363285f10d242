package ops

import "wolffia/perm"

// Explain returns what the rules give for a path of the codebase, which rule decides, and, by the
// explanation's Remedy, what would allow more. kind is [perm.Glob] if it is not known whether the
// path is a directory: the answer is the stricter one then.
func Explain(rules *perm.Policy, name string, kind perm.Kind) perm.Explanation {
	file, dir := rules.Explain(name, false), rules.Explain(name, true)
	if kind == perm.Directory || kind == perm.Glob && dir.Level < file.Level {
		return dir
	}
	return file
}
