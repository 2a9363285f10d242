package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"wolffia/internal/filelock"
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
	unlock func() // twice is fine
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

// lockLimit is how long a lock may still be held after its service was killed: a
// child that was just being started has a copy of it until it executes.
const lockLimit = time.Second

// locked opens a registry while nobody else has it, and keeps it so.
func locked(dir string, open func(r *Registry) error) (*Registry, error) {
	r := &Registry{path: filepath.Join(dir, dbFile)}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, unavailable(err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockLimit, ErrInUse)
	defer cancel()
	r.unlock, err = filelock.Wait(ctx, f, unix.F_WRLCK, 0, 0)
	switch {
	case errors.Is(err, ErrInUse):
		return nil, runtime.Errorf(runtime.ErrUnavailable, "state directory %s is %w: end that one first, or choose another with --state-dir", dir, err)
	case err != nil:
		return nil, unavailable(fmt.Errorf("lock %s: %w", f.Name(), err))
	}
	if err := open(r); err != nil {
		r.unlock()
		return nil, err
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
	if err = checkFile(r.path); err != nil {
		return err
	}
	r.db, err = bbolt.Open(r.path, 0o600, &bbolt.Options{
		Timeout:      lockLimit, // bbolt locks it too
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
	case err != nil:
		return err
	}
	if err := migrate(r.db, steps); err != nil {
		return err
	}
	return r.db.View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, sandboxesBucket, reservedBucket, ownersBucket} {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: it has no bucket %q", ErrDamaged, name)
			}
		}
		return nil
	})
}

// maxSize bounds the file, in bytes: a sandbox takes less than 2 KB.
const maxSize = 256 << 20

// checkFile checks the file, if there is one.
func checkFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%w: it is not a regular file", ErrDamaged)
	case st.Size() == 0: // made, and not written to
		return nil
	case st.Size() > maxSize:
		return fmt.Errorf("%w: it has %d bytes", ErrDamaged, st.Size())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err == nil {
		if err = checkPages(data); err != nil {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return err
}

// Close releases the file, and the state directory to the next service. Twice
// is fine.
func (r *Registry) Close() error {
	defer r.unlock()
	return r.closeDB()
}

func (r *Registry) closeDB() error {
	if r.db == nil || r.broken.Load() { // its locks may be held for ever: only its file is ours to close
		if r.file == nil {
			return nil
		}
		if fd := int(r.file.Fd()); fd >= 0 {
			_ = unix.Flock(fd, unix.LOCK_UN) // the file's memory, which stays mapped, would keep the lock
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
