package registry

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"wolffia/runtime"
)

// The buckets, and the key of the schema's number.
var (
	metaBucket      = []byte("meta")
	sandboxesBucket = []byte("sandboxes")
	reservedBucket  = []byte("reserved")
	ownersBucket    = []byte("owners")

	versionKey = []byte("version")
)

// A migration takes a file from the schema before it to its own.
type migration func(tx *bbolt.Tx) error

// migrations lead to the schema of today; the first makes number 1 of an empty
// file. One that was released never changes.
var migrations = []migration{
	func(tx *bbolt.Tx) error { // 1
		for _, name := range [][]byte{sandboxesBucket, reservedBucket, ownersBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	},
}

// migrate takes a file to the schema of the last step, in one transaction: if
// one fails, the file is as it was.
func migrate(db *bbolt.DB, steps []migration) error {
	var have uint64
	err := db.View(func(tx *bbolt.Tx) (err error) {
		have, err = version(tx)
		return err
	})
	if err != nil || have == uint64(len(steps)) {
		return err // nothing is written to a file that is as it should be
	}
	if have > uint64(len(steps)) {
		return runtime.Errorf(runtime.ErrUnavailable, "it was written by a newer wolffia: its schema is %d, this one knows %d", have, len(steps))
	}
	return db.Update(func(tx *bbolt.Tx) error {
		for i := have; i < uint64(len(steps)); i++ {
			if err := steps[i](tx); err != nil {
				return fmt.Errorf("migrate to schema %d: %w", i+1, err)
			}
		}
		b, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		return b.Put(versionKey, binary.BigEndian.AppendUint64(nil, uint64(len(steps))))
	})
}

// version is the file's schema; 0 is that of an empty file.
func version(tx *bbolt.Tx) (uint64, error) {
	b := tx.Bucket(metaBucket)
	if b == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return 0, fmt.Errorf("%w: it has content and no version", ErrDamaged)
		}
		return 0, nil
	}
	v := b.Get(versionKey)
	if len(v) != 8 || binary.BigEndian.Uint64(v) == 0 {
		return 0, fmt.Errorf("%w: its version is %x", ErrDamaged, v)
	}
	return binary.BigEndian.Uint64(v), nil
}
