package statedir

import (
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A PooledRecord is the record of a sandbox that was started ahead. Its directory has no
// configuration, so it does not count as a sandbox. Its processes hold the lock.
type PooledRecord struct {
	Config Config `json:"config"` // of the template, completed
	Shape  string `json:"shape"`  // the name of the index in which it is published
	Since  int64  `json:"since"`  // ms since 1970
	Idle   int64  `json:"idleMs"` // how long after Since it ends, unclaimed
}

const (
	pooledDir    = "pooled"
	pooledFile   = "pooled.json"
	pooledSocket = "pooled"
)

// PooledSocket returns the path at which the shim of a pooled sandbox listens.
func PooledSocket(run string) string { return filepath.Join(run, pooledSocket) }

// index returns the directory with the names of the pooled sandboxes of a shape.
func (d *Dir) index(shape string) string { return filepath.Join(d.path, pooledDir, shape) }

// A PooledState is the state of a Record as a pooled sandbox.
type PooledState struct{ rec *Record }

// Pooled returns the state of the sandbox as a pooled sandbox.
func (rec *Record) Pooled() PooledState { return PooledState{rec} }

// PublishedPath returns the path of the name by which a pooled sandbox of the shape is published.
// The process that unlinks it has claimed the sandbox.
func (s PooledState) PublishedPath(shape string) string {
	return filepath.Join(s.rec.dir.index(shape), s.rec.id)
}

// CreatePooled makes the directory of a pooled sandbox, and takes its lock: without, the directory
// would be incomplete, and another process could remove it. After an error nothing is left.
func (d *Dir) CreatePooled(r *PooledRecord) (*Record, *Lock, error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	rec := d.Record(r.Config.ID)
	step.Reached("pooled: lock taken")
	var lock *Lock
	err = d.make(rec, &r.Config, nil,
		func() error { return statefile.Write(filepath.Join(rec.path, pooledFile), r) },
		func() error { return statefile.Prepare(rec.ConfigFile()) },
		func() (err error) {
			lock, err = rec.TryLock()
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	return rec, lock, nil
}

// Publish lets other processes claim a pooled sandbox. A claimed one is not published again.
func (s PooledState) Publish(shape string) error {
	for range 3 { // another process removes the directory when it is empty
		err := errors.Join(mkdir(filepath.Join(s.rec.dir.path, pooledDir)), mkdir(s.rec.dir.index(shape)))
		if err == nil {
			err = statefile.Create(s.PublishedPath(shape), nil)
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fs.ErrNotExist
}

// mkdir makes a private directory, whatever the umask, if it does not exist.
func mkdir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o700)
}

// HasPools reports whether pooled sandboxes were ever started.
func (d *Dir) HasPools() bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(d.path, pooledDir), &st) == nil
}

// names returns the names in a directory, in no order; nil if the directory does not exist. It
// opens the directory without package os, which asks the poller first.
func names(dir string) ([]string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, &fs.PathError{Op: "open", Path: dir, Err: err})
	}
	defer unix.Close(fd)
	return namesIn(fd, dir, math.MaxInt)
}

// namesIn is names of an open directory. It returns nil if there are more than most.
func namesIn(fd int, dir string, most int) ([]string, error) {
	var list []string
	for buf := make([]byte, 16<<10); ; {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, fs.ErrNotExist) { // it has been removed since it was opened
			return nil, nil
		}
		if err != nil {
			return nil, runtime.WithClass(runtime.ErrUnavailable, &fs.PathError{Op: "getdents", Path: dir, Err: err})
		}
		if n <= 0 {
			return list, nil
		}
		if _, _, list = unix.ParseDirent(buf[:n], -1, list); len(list) > most {
			return nil, nil
		}
	}
}

// Claim makes a pooled sandbox of the shape the sandbox with the configuration c, whose ID it
// sets. It returns nil if none is published. caller is as for [Dir.Create], and so is
// [runtime.ErrExists]. After an error no such sandbox exists; rec is then a pooled sandbox that
// was claimed, which the caller terminates, or nil.
func (d *Dir) Claim(c Draft, shape string) (rec *Record, caller *os.File, err error) {
	list, _ := names(d.index(shape)) // an index that cannot be read counts as empty
	if len(list) == 0 {
		return nil, nil, nil
	}
	unlock, err := d.claimName(c.Name)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	id := c.ID
	defer func() {
		if rec == nil || err != nil {
			c.ID = id
		}
	}()
	first := rand.IntN(len(list)) // so that claimants do not all try the same one
	for i := range list {
		rec := d.Record(list[(first+i)%len(list)])
		if !runtime.IsID(rec.id) {
			continue
		}
		if caller, claimed, err := rec.Pooled().claim(c, func() bool { return rec.Pooled().Unpublish(shape) }); claimed {
			return rec, caller, err
		}
	}
	return nil, nil, nil
}

// claimName makes sure that no sandbox has the name, nor gets it until unlock is called. An empty
// name is always free.
func (d *Dir) claimName(name string) (unlock func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	if unlock, err = d.lock(); err != nil {
		return nil, err
	}
	if err := d.nameFree(name); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// claim is Claim for one pooled sandbox. It opens what it needs before it calls unpublish, so that
// a sandbox which it cannot examine stays published. claimed is false, and err nil, if the shim
// has ended, or if unpublish returns false because another process has claimed the sandbox.
func (s PooledState) claim(c Draft, unpublish func() bool) (caller *os.File, claimed bool, err error) {
	// With the configuration's lock no process removes the directory; see RemoveIncomplete.
	settled, err := s.rec.TryLockConfig()
	if err != nil {
		// another process claims or removes it, or there is no descriptor left
		return nil, false, nil
	}
	defer settled()
	lives, err := s.rec.held(shimPart, 1)
	if err != nil {
		return nil, false, nil // as above
	}
	if !lives || !s.rec.IsIncomplete() {
		unpublish() // its shim has ended: no process can claim it
		return nil, false, nil
	}
	if c.BoundToCaller {
		if caller, err = s.rec.holdAsCaller(); err != nil {
			return nil, false, nil // as above
		}
	}
	if !unpublish() {
		_ = caller.Close() // nil is fine
		return nil, false, nil
	}
	step.Reached("claim: claimed")
	c.ID = s.rec.id
	if l := newLifetime(c.Config, Now()); l != nil {
		err = statefile.Write(filepath.Join(s.rec.path, lifetimeFile), l)
		step.Reached("claim: lifetime recorded")
	}
	if err == nil {
		err = c.write(s.rec, statefile.WritePrepared) // last: now the sandbox exists
	}
	if err != nil {
		_ = caller.Close() // nil is fine
		return nil, true, runtime.Errorf(runtime.ErrUnavailable, "record the sandbox: %w", err)
	}
	step.Reached("claim: recorded")
	return caller, true, nil
}

// Record reads the record of a pooled sandbox. fs.ErrNotExist: the sandbox was not started ahead.
func (s PooledState) Record() (*PooledRecord, error) {
	r := new(PooledRecord)
	return r, statefile.Read(filepath.Join(s.rec.path, pooledFile), r)
}

// WasPooled reports whether the directory was made for a pooled sandbox.
func (s PooledState) WasPooled() bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(s.rec.path, pooledFile), &st) == nil
}

// IsAlive reports whether the directory is that of a pooled sandbox whose processes run, and so is
// not incomplete. If it cannot find that out, it returns true.
func (s PooledState) IsAlive() bool {
	if !s.WasPooled() {
		return false
	}
	lives, err := s.rec.Locked()
	return lives || err != nil && !errors.Is(err, runtime.ErrNotFound)
}

// IsPooled reports whether the shim of a pooled sandbox waits to be activated. The shim may have
// ended since.
func (s PooledState) IsPooled() bool {
	var st unix.Stat_t
	return unix.Lstat(PooledSocket(s.rec.Run()), &st) == nil
}

// Published returns the pooled sandboxes that are published, by shape. It removes the names of
// those that have ended.
func (d *Dir) Published() (map[string][]string, error) {
	shapes, err := names(filepath.Join(d.path, pooledDir))
	all := map[string][]string{}
	for _, shape := range shapes {
		ids, oerr := d.PublishedOf(shape)
		err = errors.Join(err, oerr)
		if len(ids) > 0 {
			all[shape] = ids
		}
	}
	return all, err
}

// PublishedOf is Published for one shape. It reads no record: reading those of many sandboxes
// takes milliseconds.
func (d *Dir) PublishedOf(shape string) (ids []string, err error) {
	list, err := names(d.index(shape))
	for _, id := range list {
		rec := d.Record(id)
		if !runtime.IsID(id) || !rec.Pooled().IsAlive() || !rec.IsIncomplete() {
			_ = unix.Unlink(rec.Pooled().PublishedPath(shape))
			continue
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		_ = unix.Rmdir(d.index(shape)) // fails if one was added
	}
	return ids, err
}

// Unpublish claims a pooled sandbox. It returns false if another process has claimed it.
func (s PooledState) Unpublish(shape string) bool {
	return unix.Unlink(s.PublishedPath(shape)) == nil
}

// tryAll takes the locks of the configuration and of the sandbox, for the removal of an incomplete
// directory. ErrConflict: another process has one of them.
func (rec *Record) tryAll() (release func(), err error) {
	settled, err := rec.TryLockConfig()
	if err != nil {
		return nil, err
	}
	lock, err := rec.TryLock()
	if err != nil {
		settled()
		return nil, err
	}
	return func() {
		_ = lock.Unlock() // its file may be gone
		_ = lock.Close()
		settled()
	}, nil
}
