package registry

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"wolffia/runtime"
)

// A ConflictError says that an owner has a sandbox already, which may still be
// in the making. It is of class [runtime.ErrConflict].
type ConflictError struct{ SandboxID string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("sandbox %s already exists for this owner", e.SandboxID)
}

// Unwrap returns the class.
func (e *ConflictError) Unwrap() error { return runtime.ErrConflict }

// Reserve gives the sandbox to its owner while it is being made: nobody finds it
// until Register, but the owner has one. An owner that has another is a
// [*ConflictError], an id that somebody else has [runtime.ErrExists]. Of any
// number of callers for one owner one succeeds. It returns when it is on the
// disk, as all changes do.
func (r *Registry) Reserve(m Metadata) error {
	return r.change(m, reservedBucket, sandboxesBucket)
}

// Register makes a sandbox known as its owner's, whether or not it was reserved.
// Errors are as for Reserve. A record of the same sandbox and owner is replaced.
func (r *Registry) Register(m Metadata) error {
	return r.change(m, sandboxesBucket, reservedBucket)
}

// change claims the owner for m, and puts m into a bucket and out of the other.
func (r *Registry) change(m Metadata, into, outOf []byte) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return r.update(func(tx *bbolt.Tx) error {
		if has, ok := holder(tx, m.Owner); ok && has.SandboxID != m.SandboxID {
			return &ConflictError{has.SandboxID}
		}
		if other, _, ok := lookup(tx, []byte(m.SandboxID)); ok && other.Owner != m.Owner {
			return runtime.Errorf(runtime.ErrExists, "there is a sandbox %s already", m.SandboxID)
		}
		if err := tx.Bucket(outOf).Delete([]byte(m.SandboxID)); err != nil {
			return err
		}
		if err := tx.Bucket(ownersBucket).Put(m.key(), []byte(m.SandboxID)); err != nil {
			return err
		}
		return put(tx, into, m)
	})
}

// Unregister forgets a sandbox, registered or reserved. One that is not there is
// no error.
func (r *Registry) Unregister(sandboxID string) error {
	return r.update(func(tx *bbolt.Tx) error { return remove(tx, []byte(sandboxID)) })
}

// GetMetadata returns what is registered of a sandbox; [runtime.ErrNotFound] if
// there is nothing, or nothing that is valid.
func (r *Registry) GetMetadata(sandboxID string) (Metadata, error) {
	return r.get(func(tx *bbolt.Tx) (Metadata, bool) {
		m, reserved, ok := lookup(tx, []byte(sandboxID))
		return m, ok && !reserved
	})
}

// FindByOwner returns the owner's sandbox; [runtime.ErrNotFound] if there is none.
func (r *Registry) FindByOwner(o Owner) (Metadata, error) {
	return r.get(func(tx *bbolt.Tx) (Metadata, bool) {
		m, ok := holder(tx, o)
		if ok {
			_, reserved, _ := lookup(tx, []byte(m.SandboxID))
			ok = !reserved
		}
		return m, ok
	})
}

func (r *Registry) get(find func(tx *bbolt.Tx) (Metadata, bool)) (m Metadata, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		found, ok := find(tx)
		if !ok {
			return runtime.Errorf(runtime.ErrNotFound, "no such sandbox is registered")
		}
		m = found
		return nil
	})
	return m, err
}

// List returns what is registered, by id.
func (r *Registry) List() ([]Metadata, error) { return r.list(sandboxesBucket) }

// Reserved returns what was reserved and not registered since, by id: sandboxes
// in the making, or what a service that was killed has left half made.
func (r *Registry) Reserved() ([]Metadata, error) { return r.list(reservedBucket) }

func (r *Registry) list(bucket []byte) (all []Metadata, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(id, record []byte) error {
			if m, ok := decode(id, record); ok {
				all = append(all, m)
			}
			return nil
		})
	})
	return all, err
}

// lookup returns a sandbox's record, if it is valid.
func lookup(tx *bbolt.Tx, id []byte) (m Metadata, reserved, ok bool) {
	if len(id) == 0 {
		return Metadata{}, false, false
	}
	if m, ok = decode(id, tx.Bucket(sandboxesBucket).Get(id)); ok {
		return m, false, true
	}
	m, ok = decode(id, tx.Bucket(reservedBucket).Get(id))
	return m, ok, ok
}

// holder returns the sandbox that an owner has, registered or reserved.
func holder(tx *bbolt.Tx, o Owner) (Metadata, bool) {
	m, _, ok := lookup(tx, tx.Bucket(ownersBucket).Get(o.key()))
	return m, ok && m.Owner == o
}

func put(tx *bbolt.Tx, bucket []byte, m Metadata) error {
	record, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put([]byte(m.SandboxID), record)
}

// remove forgets a sandbox, with all owners that lead to it: a record that is
// not valid does not say whose it was.
func remove(tx *bbolt.Tx, id []byte) error {
	if len(id) == 0 {
		return nil
	}
	m, _, valid := lookup(tx, id)
	for _, bucket := range [][]byte{sandboxesBucket, reservedBucket} {
		if err := tx.Bucket(bucket).Delete(id); err != nil {
			return err
		}
	}
	owners := tx.Bucket(ownersBucket)
	if key := m.key(); valid && string(owners.Get(key)) == string(id) {
		return owners.Delete(key)
	}
	var keys [][]byte // not deleted while they are walked: see bbolt.Bucket.ForEach
	_ = owners.ForEach(func(key, of []byte) error {
		if string(of) == string(id) {
			keys = append(keys, slices.Clone(key))
		}
		return nil
	})
	for _, key := range keys {
		if err := owners.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
