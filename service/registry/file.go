package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// ErrInUse is the error if another service uses the state directory.
var ErrInUse = errors.New("in use by another service")

// errDamaged is the error for a file that no Registry has written.
var errDamaged = errors.New("damaged")

// The files, in the state directory.
const (
	dbFile      = "registry.db"
	damagedFile = dbFile + ".damaged"
	lockFile    = "registry.lock"
)

// version is the version of the schema: see the package comment.
const version = 2 // version 1 had no checksum

// The buckets of the file, and the key of the version.
var (
	metaBucket      = []byte("meta")
	sandboxesBucket = []byte("sandboxes")
	reservedBucket  = []byte("reserved")
	versionKey      = []byte("version")
)

// Open opens the index of the state directory dir, which must exist; no file is an
// empty index. A damaged file is renamed to registry.db.damaged, which log gets a
// warning of, and replaced with an empty index. If another service uses dir, the
// error wraps [ErrInUse]. The caller closes the Registry.
func Open(dir string, log *slog.Logger) (*Registry, error) {
	unlock, err := filelock.Exclusive(filepath.Join(dir, lockFile))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, runtime.Errorf(runtime.ErrUnavailable, "state directory %s is %w: end that service, or choose another directory with --state-dir", dir, ErrInUse)
	case err != nil:
		return nil, unavailable(err)
	}
	path := filepath.Join(dir, dbFile)
	_ = os.Remove(path + statefile.Coming) // a killed service may have left one
	ix, err := load(path)
	if errors.Is(err, errDamaged) {
		log.Warn("the registry is damaged: it is set aside and rebuilt from the running sandboxes", "file", path, "renamedTo", filepath.Join(dir, damagedFile), "error", err)
		ix, err = newIndex(), os.Rename(path, filepath.Join(dir, damagedFile))
	}
	if err != nil {
		unlock()
		return nil, unavailable(err)
	}
	r := &Registry{dir: dir, unlock: unlock, save: func(b []byte) error { return statefile.WriteBytes(path, b) }}
	r.index.Store(ix)
	return r, nil
}

// maxSize bounds the file, in bytes: enough for 100,000 sandboxes.
const maxSize = 256 << 20

// load reads the index in a file. The error of a damaged file wraps errDamaged.
func load(path string) (*index, error) {
	data, err := statefile.ReadBytes(path, maxSize+1)
	if errors.Is(err, fs.ErrNotExist) {
		return newIndex(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: remove %s, which is rebuilt from the running sandboxes", err, dbFile)
	}
	return decode(data)
}

// decode reads the content of a file. Bbolt trusts what it maps: a damaged page can
// end the process with a fault or a stack overflow, so it gets no page to see
// before the checksum is known to match.
func decode(data []byte) (*index, error) {
	pages := data[:max(0, len(data)-sha256.Size)]
	if sum := sha256.Sum256(pages); len(data) > maxSize || string(data[len(pages):]) != string(sum[:]) {
		return nil, fmt.Errorf("%w: the checksum does not match", errDamaged)
	}
	file, err := memory()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Write(pages); err != nil {
		return nil, err
	}
	db, err := openDB(file, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	ix := newIndex()
	return ix, errors.Join(db.View(func(tx *bbolt.Tx) error { return read(tx, ix) }), db.Close())
}

// encode returns the content of a file.
func encode(ix *index) ([]byte, error) {
	file, err := memory()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	db, err := openDB(file, false)
	if err != nil {
		return nil, err
	}
	var pages bytes.Buffer
	err = db.Update(func(tx *bbolt.Tx) error { return fill(tx, ix) })
	if err == nil {
		err = db.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(&pages)
			return err
		})
	}
	sum := sha256.Sum256(pages.Bytes())
	pages.Write(sum[:])
	return pages.Bytes(), errors.Join(err, db.Close())
}

// memory returns an empty file in memory. The caller closes it.
func memory() (*os.File, error) {
	fd, err := unix.MemfdCreate("registry", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), "registry"), nil
}

// openDB opens a database in a file in memory, which the database closes.
func openDB(file *os.File, readOnly bool) (*bbolt.DB, error) {
	return bbolt.Open(file.Name(), 0, &bbolt.Options{
		ReadOnly: readOnly, NoSync: true, NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return file, nil },
	})
}

// read fills an index with the records of a file.
func read(tx *bbolt.Tx, ix *index) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil || len(meta.Get(versionKey)) != 8 {
		return fmt.Errorf("%w: it has no version", errDamaged)
	}
	if v := binary.BigEndian.Uint64(meta.Get(versionKey)); v > version {
		return fmt.Errorf("%s has version %d, this wolffia reads %d: use a newer wolffia", dbFile, v, version)
	}
	for _, name := range [][]byte{sandboxesBucket, reservedBucket} {
		bucket := tx.Bucket(name)
		if bucket == nil {
			return fmt.Errorf("%w: it has no bucket %q", errDamaged, name)
		}
		err := bucket.ForEach(func(id, text []byte) error {
			var m record
			if err := json.Unmarshal(text, &m.Metadata); err != nil {
				return fmt.Errorf("%w: sandbox %q: %w", errDamaged, id, err)
			}
			m.Reserved = string(name) == string(reservedBucket)
			_, twice := ix.sandboxes[m.SandboxID]
			_, another := ix.owners[m.Owner]
			if err := m.Validate(); err != nil || twice || another || m.SandboxID != string(id) {
				return fmt.Errorf("%w: sandbox %q: the record is invalid, or its owner has another", errDamaged, id)
			}
			ix.put(m)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fill writes the records of an index into an empty database.
func fill(tx *bbolt.Tx, ix *index) error {
	meta, err := tx.CreateBucket(metaBucket)
	if err == nil {
		err = meta.Put(versionKey, binary.BigEndian.AppendUint64(nil, version))
	}
	if err != nil {
		return err
	}
	for reserved, name := range map[bool][]byte{false: sandboxesBucket, true: reservedBucket} {
		bucket, err := tx.CreateBucket(name)
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(ix.sandboxes)) {
			m := ix.sandboxes[id]
			if m.Reserved != reserved {
				continue
			}
			text, err := json.Marshal(m.Metadata)
			if err == nil {
				err = bucket.Put([]byte(id), text)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
