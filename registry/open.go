package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// The errors on which callers of Open act. Both are of class
// [runtime.ErrUnavailable].
var (
	// ErrInUse: another service has this state directory.
	ErrInUse = errors.New("in use by another service")
	// ErrDamaged: the file cannot be used; [Rebuild] makes another.
	ErrDamaged = errors.New("damaged")
)

// ErrClosed is what a Registry says that was closed.
var ErrClosed = errors.New("closed")

// The files, in the state directory.
const (
	dbFile   = "registry.db"
	lockFile = "registry.lock"
)

// A Registry is an open index. It is safe for concurrent use.
type Registry struct {
	path   string
	lock   *os.File
	db     *bbolt.DB
	file   *os.File    // db's own
	broken atomic.Bool // db has panicked: it is not touched any more
}

// Open opens the index in the state directory dir, which must be there, and
// makes it if it is not. It reads all of the file, to find out now if it is
// damaged. A file of an older schema is migrated. The caller closes it.
func Open(dir string) (*Registry, error) {
	return locked(dir, func(r *Registry) error { return r.open(migrations) })
}

// Rebuild makes the index anew of the sandboxes that were found, as
// [Registry.Reconcile] adds them. A file that is there is kept, as
// registry.db.old, in the place of an older one. The caller closes it.
func Rebuild(dir string, found []Metadata) (*Registry, *Changes, error) {
	var changes *Changes
	r, err := locked(dir, func(r *Registry) (err error) {
		if err := os.Rename(r.path, r.path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unavailable(err)
		}
		if err := r.open(migrations); err != nil {
			return err
		}
		if changes, err = r.Reconcile(found); err != nil {
			err = errors.Join(err, r.closeDB())
		}
		return err
	})
	return r, changes, err
}

// locked opens a registry while nobody else has it, and keeps it so.
func locked(dir string, open func(r *Registry) error) (*Registry, error) {
	r := &Registry{path: filepath.Join(dir, dbFile)}
	name := filepath.Join(dir, lockFile)
	var err error
	if r.lock, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err != nil {
		return nil, unavailable(err)
	}
	switch err = unix.Flock(int(r.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = runtime.Errorf(runtime.ErrUnavailable, "state directory %s is %w: end that one first, or choose another with --state-dir", dir, ErrInUse)
	case err != nil:
		err = unavailable(fmt.Errorf("lock %s: %w", name, err))
	default:
		err = open(r)
	}
	if err != nil {
		return nil, errors.Join(err, r.lock.Close())
	}
	return r, nil
}

// open opens and checks the file.
func (r *Registry) open(steps []migration) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("registry %s: %w", r.path, classed(err)), r.closeDB())
		}
	}()
	defer r.guard(&err)()
	r.db, err = bbolt.Open(r.path, 0o600, &bbolt.Options{
		Timeout:      time.Millisecond, // whoever has it does not heed registry.lock
		FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flags int, mode os.FileMode) (_ *os.File, err error) {
			r.file, err = os.OpenFile(name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
			return r.file, err
		},
	})
	switch {
	case errors.Is(err, bberrors.ErrTimeout):
		return runtime.Errorf(runtime.ErrUnavailable, "it is %w", ErrInUse)
	case errors.Is(err, bberrors.ErrInvalid), errors.Is(err, bberrors.ErrChecksum), errors.Is(err, bberrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil && tooShort(r.path):
		return fmt.Errorf("%w: %w", ErrDamaged, err) // bbolt's own error has no class
	case err != nil:
		return err
	}
	if err := r.db.View(func(tx *bbolt.Tx) error { return whole(tx, r.file) }); err != nil {
		return err
	}
	return migrate(r.db, steps)
}

// tooShort reports whether a file cannot be a database, which has two pages of
// its own.
func tooShort(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().IsRegular() && 0 < st.Size() && st.Size() < int64(2*os.Getpagesize())
}

// Close releases the file, and the state directory to the next service. Twice
// is fine.
func (r *Registry) Close() error { return errors.Join(r.closeDB(), ignoreClosed(r.lock.Close())) }

func (r *Registry) closeDB() error {
	if r.db == nil || r.broken.Load() { // its locks may be held for ever: only its file is ours to close
		if r.file == nil {
			return nil
		}
		return ignoreClosed(r.file.Close())
	}
	return r.db.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// view and update are transactions. In one that is of a damaged file bbolt may
// panic, and the memory that it maps may end before what it looks for.
func (r *Registry) view(f func(tx *bbolt.Tx) error) error   { return r.do((*bbolt.DB).View, f) }
func (r *Registry) update(f func(tx *bbolt.Tx) error) error { return r.do((*bbolt.DB).Update, f) }

func (r *Registry) do(begin func(*bbolt.DB, func(*bbolt.Tx) error) error, f func(tx *bbolt.Tx) error) (err error) {
	if r.broken.Load() {
		return runtime.Errorf(runtime.ErrUnavailable, "registry %s: %w", r.path, ErrDamaged)
	}
	defer func() {
		if err != nil && runtime.Class(err) == nil {
			err = fmt.Errorf("registry %s: %w", r.path, classed(err))
		}
	}()
	defer r.guard(&err)()
	return begin(r.db, f)
}

// guard makes an error of a panic, and of a fault in mapped memory.
func (r *Registry) guard(err *error) (end func()) {
	faults := debug.SetPanicOnFault(true)
	return func() {
		if p := recover(); p != nil {
			r.broken.Store(true)
			*err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
		debug.SetPanicOnFault(faults)
	}
}

// classed gives an error of the file its class, and what to do about it.
func classed(err error) error {
	switch {
	case errors.Is(err, ErrDamaged):
		return runtime.Errorf(runtime.ErrUnavailable, "%w; it can be made anew from the state directory", err)
	case errors.Is(err, bberrors.ErrDatabaseNotOpen):
		return runtime.WithClass(runtime.ErrUnavailable, ErrClosed)
	case runtime.Class(err) != nil:
		return err
	}
	return runtime.WithClass(runtime.ErrUnavailable, err)
}

func unavailable(err error) error {
	return runtime.Errorf(runtime.ErrUnavailable, "registry: %w", err)
}
