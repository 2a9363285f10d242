package registry

import (
	"cmp"
	"slices"

	"go.etcd.io/bbolt"
)

// Changes are what a reconciliation has done.
type Changes struct {
	Added   []Metadata // were found, and were not registered
	Removed []string   // ids that were registered, and were not found
	// Conflicts were found, and their owner has another: they are not
	// registered.
	Conflicts []Metadata
	Skipped   []Metadata // are not valid
}

// Reconcile makes the index say what was found: all sandboxes that there are, of
// every owner. What is missing is added, what is gone is removed. Of two of one
// owner the one that is registered counts, else the older. What is reserved
// stays as it is: it is for those who reserved it. All of it is one
// transaction.
func (r *Registry) Reconcile(found []Metadata) (*Changes, error) {
	var done *Changes
	err := r.update(func(tx *bbolt.Tx) (err error) {
		done, err = reconcile(tx, found)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func reconcile(tx *bbolt.Tx, found []Metadata) (*Changes, error) {
	done := &Changes{}
	there := map[string]Metadata{}
	for _, m := range found {
		if m.Validate() != nil {
			done.Skipped = append(done.Skipped, m)
			continue
		}
		there[m.SandboxID] = m
	}
	var gone [][]byte
	_ = tx.Bucket(sandboxesBucket).ForEach(func(id, record []byte) error {
		m, ok := decode(id, record)
		has, led := holder(tx, m.Owner)
		if now, is := there[string(id)]; !ok || !is || now.Owner != m.Owner || led && has.SandboxID != m.SandboxID {
			gone = append(gone, slices.Clone(id))
		}
		return nil
	})
	for _, id := range gone {
		if err := remove(tx, id); err != nil {
			return nil, err
		}
		done.Removed = append(done.Removed, string(id))
	}
	if err := dropStrayOwners(tx); err != nil {
		return nil, err
	}
	// Those that are registered first: they keep their owners.
	var missing []Metadata
	for _, m := range there {
		old, reserved, ok := lookup(tx, []byte(m.SandboxID))
		switch {
		case reserved:
			continue
		case !ok:
			missing = append(missing, m)
			continue
		}
		m.GitConfigured = m.GitConfigured || old.GitConfigured // it can be, later than what was found says
		if m == old {
			continue
		}
		if err := put(tx, sandboxesBucket, m); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(missing, func(a, b Metadata) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.SandboxID, b.SandboxID))
	})
	for _, m := range missing {
		if _, has := holder(tx, m.Owner); has {
			done.Conflicts = append(done.Conflicts, m)
			continue
		}
		if err := tx.Bucket(ownersBucket).Put(m.key(), []byte(m.SandboxID)); err != nil {
			return nil, err
		}
		if err := put(tx, sandboxesBucket, m); err != nil {
			return nil, err
		}
		done.Added = append(done.Added, m)
	}
	return done, nil
}

// dropStrayOwners forgets owners that lead to nothing of theirs, and puts right
// those of sandboxes that nobody leads to.
func dropStrayOwners(tx *bbolt.Tx) error {
	owners := tx.Bucket(ownersBucket)
	var stray [][]byte
	_ = owners.ForEach(func(key, id []byte) error {
		if m, _, ok := lookup(tx, id); !ok || string(m.key()) != string(key) {
			stray = append(stray, slices.Clone(key))
		}
		return nil
	})
	for _, key := range stray {
		if err := owners.Delete(key); err != nil {
			return err
		}
	}
	var unled []Metadata
	for _, bucket := range [][]byte{sandboxesBucket, reservedBucket} {
		_ = tx.Bucket(bucket).ForEach(func(id, record []byte) error {
			if m, ok := decode(id, record); ok && owners.Get(m.key()) == nil {
				unled = append(unled, m)
			}
			return nil
		})
	}
	for _, m := range unled {
		if owners.Get(m.key()) == nil {
			if err := owners.Put(m.key(), []byte(m.SandboxID)); err != nil {
				return err
			}
		}
	}
	return nil
}
