package fusefs

// SetRules replaces the rules, and returns when the new ones are in force:
//
//   - Requests in progress are finished by the old rules, but for those that wait for the copy of
//     a large file; these and later ones get the new ones. An open file stays open, but
//     reading or writing it fails with EACCES, or ENOENT if it is hidden now.
//   - The kernel drops cached names, attributes and listings.
//   - The kernel drops cached content that may no longer be read: access through a memory
//     mapping is a SIGBUS. Changes made through a mapping and not yet written back are
//     lost if they may no longer be written.
//   - A .git that was the sandbox's own and is the host's now, or the other way round, is another
//     one: what was opened before is hidden.
//   - A file without a name has the level of its last name, in the directory that it was in.
//   - A process keeps its working directory, but can use no name in it if that is hidden
//     now.
//
// Before Linux 6.16 it takes up to a second, and getcwd(2) fails in directories until their
// path is used again.
func (s *Server) SetRules(rules Rules) {
	t := s.tree
	t.changeMu.Lock() // a review is done by one set of rules
	t.levels.rulesMu.Lock()
	t.levels.set(rules)
	revoked := t.applyRulesToAll()
	t.levels.rulesMu.Unlock()
	t.changeMu.Unlock()
	t.gate.asks.rulesChanged() // before the kernel is: it may wait for a held request
	t.kernel.forgetRules(revoked)
}
