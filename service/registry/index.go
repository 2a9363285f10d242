package registry

import (
	"cmp"
	"maps"
	"slices"
)

// A record is the entry of a sandbox.
type record struct {
	Metadata
	Reserved bool // it is being created or destroyed
}

// An index holds the records, all of them valid, and one for each owner.
type index struct {
	sandboxes map[string]record // by id
	owners    map[Owner]string  // the ids
}

func newIndex() *index { return &index{map[string]record{}, map[Owner]string{}} }

func (ix *index) clone() *index { return &index{maps.Clone(ix.sandboxes), maps.Clone(ix.owners)} }

func (ix *index) equal(other *index) bool { return maps.Equal(ix.sandboxes, other.sandboxes) }

// put adds or replaces a record.
// Precondition: the owner has no other sandbox, and the id no other owner.
func (ix *index) put(m record) {
	ix.sandboxes[m.SandboxID], ix.owners[m.Owner] = m, m.SandboxID
}

func (ix *index) remove(id string) {
	if m, has := ix.sandboxes[id]; has {
		delete(ix.sandboxes, id)
		delete(ix.owners, m.Owner)
	}
}

// Changes are what a reconciliation has done.
type Changes struct {
	Added     []Metadata // found, and not registered before
	Removed   []string   // ids that were registered, and not found
	Conflicts []Metadata // found, and not registered: their owner has another
	Skipped   []Metadata // found, and not valid
}

// reconcile does what [Registry.Reconcile] says.
func (ix *index) reconcile(found []Metadata) *Changes {
	done := &Changes{}
	exists := map[string]Metadata{}
	for _, m := range found {
		if m.Validate() != nil {
			done.Skipped = append(done.Skipped, m)
			continue
		}
		exists[m.SandboxID] = m
	}
	for _, id := range slices.Sorted(maps.Keys(ix.sandboxes)) {
		m := ix.sandboxes[id]
		if now, is := exists[id]; !m.Reserved && (!is || now.Owner != m.Owner) {
			ix.remove(id)
			done.Removed = append(done.Removed, id)
		}
	}
	byAge := func(a, b Metadata) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.SandboxID, b.SandboxID))
	}
	for _, m := range slices.SortedFunc(maps.Values(exists), byAge) {
		old, known := ix.sandboxes[m.SandboxID]
		_, taken := ix.owners[m.Owner]
		switch {
		case old.Reserved:
		case known:
			m.GitConfigured = m.GitConfigured || old.GitConfigured // the labels do not change when git is configured later
			ix.put(record{Metadata: m})
		case taken:
			done.Conflicts = append(done.Conflicts, m)
		default:
			ix.put(record{Metadata: m})
			done.Added = append(done.Added, m)
		}
	}
	return done
}
