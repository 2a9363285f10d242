package gitsync

import (
	"maps"
	"path/filepath"
	"slices"

	"wolffia/internal/statefile"
)

// A repository with linked working trees has one table of references, and HEAD, an index and operations for each working
// tree. The pair of the repository has the record of the references. That of a linked working tree moves the branches
// alone that its HEAD names, on either side: so they move together with its index. It leaves all others to the repository's.

// only returns the table without references but those named.
func (t table) only(names ...string) table {
	refs := make(map[string]string)
	for _, r := range names {
		if at := t.Refs[r]; at != "" {
			refs[r] = at
		}
	}
	return table{Refs: refs, Head: t.Head}
}

// share gives the record of a linked working tree the references of the repository's.
func (p *Pair) share(rec *record) error {
	if p.Shared == "" {
		return nil
	}
	var common record
	if err := statefile.Read(filepath.Join(p.Shared, stateFile), &common); err != nil {
		return err
	}
	rec.Base.Refs, rec.Exported = common.Base.Refs, common.Exported
	return nil
}

// narrow leaves to a linked working tree what is its own.
func (s *run) narrow() {
	if s.Shared == "" {
		return
	}
	names := slices.DeleteFunc([]string{s.in.branch(), s.out.branch(), s.rec.Base.branch()}, func(r string) bool { return r == "" })
	s.rec.Base, s.in.table = s.rec.Base.only(names...), s.in.only(names...)
	s.narrowed = names // not nil
	s.in.stashes, s.outStash, s.rec.Stash, s.rec.Ours = nil, nil, nil, nil
	exported := make(map[string]export)
	for r, e := range s.rec.Exported {
		if slices.Contains(names, r) {
			exported[r] = e
		}
	}
	s.rec.Exported = exported
}

// save records what both sides have.
func (s *run) save(write func(path string, v any) error) error {
	if s.Shared != "" {
		var common record
		at := filepath.Join(s.Shared, stateFile)
		if err := statefile.Read(at, &common); err != nil {
			return err
		}
		if common.Exported == nil {
			common.Exported = make(map[string]export)
		}
		for _, r := range s.narrowed {
			delete(common.Base.Refs, r)
			delete(common.Exported, r)
		}
		maps.Copy(common.Base.Refs, s.rec.Base.Refs)
		maps.Copy(common.Exported, s.rec.Exported)
		if err := write(at, &common); err != nil {
			return err
		}
	}
	return write(s.path(stateFile), &s.rec)
}
