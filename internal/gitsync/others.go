package gitsync

import (
	"maps"
	"os"
	"path/filepath"
)

// others returns the branches that other working trees with pairs of their own have checked out, on
// either side, but this one has not.
func (s *run) others() map[string]bool {
	theirs := make(map[string]bool)
	add := func(head []byte) {
		if at, err := parseHead(head); err == nil {
			theirs[at] = true
		}
	}
	for _, o := range s.Others {
		if b, err := os.ReadFile(filepath.Join(o.Host, "HEAD")); err == nil {
			add(b)
		}
		private, err := s.openPrivate(o.Private)
		if err != nil {
			continue // it has gone
		}
		if b, err := private.read("HEAD", 4096); err == nil {
			add(b)
		}
		_ = private.Close()
	}
	delete(theirs, s.in.Head)
	delete(theirs, s.out.Head)
	return theirs
}

// leave takes references out of what this sync compares.
func (s *run) leave(refs map[string]bool) {
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
