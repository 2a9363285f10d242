package gitsync

import "maps"

// others returns the branches that other working trees with pairs of their own have checked out, on
// either side, but this one has not.
func (s *run) others() map[string]bool {
	theirs := make(map[string]bool)
	for _, o := range s.Others {
		for path, open := range map[string]func(string) (tree, error){o.Host: openTree, o.Private: s.openPrivate} {
			git, err := open(path)
			if err != nil {
				continue // it was removed
			}
			if at, err := git.head(); err == nil {
				theirs[at] = true
			}
			_ = git.Close()
		}
	}
	delete(theirs, s.in.Head)
	delete(theirs, s.out.Head)
	return theirs
}

// exclude removes references from the tables that this sync compares.
func (s *run) exclude(refs map[string]bool) {
	if len(refs) == 0 {
		return
	}
	for _, t := range []*table{&s.base, &s.in.table, &s.out} {
		t.Refs = maps.Clone(t.Refs)
		for r := range refs {
			delete(t.Refs, r)
		}
	}
}
