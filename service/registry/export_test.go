package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// Check returns an error unless the file holds the index, and the index has exactly
// the owners of its sandboxes.
func (r *Registry) Check() error {
	ix, err := r.current()
	if err != nil {
		return err
	}
	read, err := load(filepath.Join(r.dir, dbFile))
	if err != nil {
		return err
	}
	if !ix.equal(read) || !maps.Equal(ix.owners, read.owners) {
		return fmt.Errorf("the index is %+v, its file %+v", ix, read)
	}
	return nil
}

// Together calls each function once all of them wait for the file, and returns how often it was
// written for them. If fail is set, no write succeeds.
func (r *Registry) Together(fail error, calls ...func()) (writes int) {
	r.mu.Lock()
	save := r.save
	r.save = func(b []byte) error {
		writes++
		if fail != nil {
			return fail
		}
		return save(b)
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(call)
		for n := 0; n <= i; {
			r.queue.Lock()
			n = len(r.waiting)
			r.queue.Unlock()
		}
	}
	r.mu.Unlock()
	all.Wait()
	r.save = save
	return writes
}

// Encode returns a file with the given records, without the checks of a Registry.
func Encode(version uint64, registered, reserved map[string]string) ([]byte, error) {
	file, err := memory()
	if err != nil {
		return nil, err
	}
	db, err := openDB(file, false)
	if err != nil {
		return nil, err
	}
	var pages bytes.Buffer
	err = db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket(metaBucket)
		if err == nil {
			err = meta.Put(versionKey, binary.BigEndian.AppendUint64(nil, version))
		}
		for name, records := range map[string]map[string]string{"sandboxes": registered, "reserved": reserved} {
			if err != nil || records == nil {
				continue
			}
			b, berr := tx.CreateBucket([]byte(name))
			err = berr
			for id, text := range records {
				err = errors.Join(err, b.Put([]byte(id), []byte(text)))
			}
		}
		return err
	})
	err = errors.Join(err, db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(&pages)
		return err
	}), db.Close())
	return Summed(pages.Bytes()), err
}

// Summed returns a file with the given pages and their checksum.
func Summed(pages []byte) []byte {
	sum := sha256.Sum256(pages)
	return slices.Concat(pages, sum[:])
}
