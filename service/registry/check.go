package registry

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Check reads all of the index and names what is wrong: pages that are lost or
// used twice, records that are not valid, owners and sandboxes that do not
// belong to one another. The error wraps ErrDamaged if it is the file itself.
func (r *Registry) Check() error {
	var wrong []error
	err := r.view(func(tx *bbolt.Tx) error {
		if err := whole(tx); err != nil {
			return err
		}
		wrong = inconsistent(tx)
		return nil
	})
	return errors.Join(append([]error{err}, wrong...)...)
}

// whole has bbolt check each page of a file that could be opened.
func whole(tx *bbolt.Tx) error {
	const most = 5 // that are shown
	var wrong []error
	for err := range tx.Check() {
		if wrong = append(wrong, err); len(wrong) > most {
			wrong[most] = errors.New("and more")
			wrong = wrong[:most+1]
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %w", ErrDamaged, errors.Join(wrong...))
	}
	return nil
}

// inconsistent names what the entries should not be.
func inconsistent(tx *bbolt.Tx) []error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	seen := map[string]bool{}
	for _, name := range [][]byte{sandboxesBucket, reservedBucket} {
		_ = tx.Bucket(name).ForEach(func(id, record []byte) error {
			m, ok := decode(id, record)
			switch {
			case !ok:
				bad("%s %q: the record is not valid", name, id)
			case seen[string(id)]:
				bad("%s %q: it is registered and reserved", name, id)
			case string(tx.Bucket(ownersBucket).Get(m.key())) != m.SandboxID:
				bad("%s %q: its owner leads to %q", name, id, tx.Bucket(ownersBucket).Get(m.key()))
			}
			seen[string(id)] = true
			return nil
		})
	}
	_ = tx.Bucket(ownersBucket).ForEach(func(key, id []byte) error {
		if m, _, ok := lookup(tx, id); !ok || string(m.key()) != string(key) {
			bad("owner %x: sandbox %q is not theirs", key, id)
		}
		return nil
	})
	return wrong
}
