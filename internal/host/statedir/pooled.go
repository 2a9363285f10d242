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

// A PooledRecord is what is recorded of a sandbox that was started before it has a user. Its directory has no
// configuration, so that it is no sandbox yet; and while it lives, its processes hold the lock.
type PooledRecord struct {
	Config Config `json:"config"` // of the template, completed
	Shape  string `json:"shape"`  // the name of the index in which it is offered
	Since  int64  `json:"since"`  // ms since 1970
	Idle   int64  `json:"idleMs"` // how long it waits for a user from Since on
}

const (
	pooledDir    = "spares"
	pooledFile   = "spare.json"
	pooledSocket = "spare"
)

// PooledSocket returns the path at which the shim of a spare listens.
func PooledSocket(run string) string { return filepath.Join(run, pooledSocket) }

// index returns the directory with the names of the spares of a shape.
func (d *Dir) index(shape string) string { return filepath.Join(d.path, pooledDir, shape) }

// A PooledState is what a Box has of a sandbox that was started ahead.
type PooledState struct{ rec *Record }

// Pooled returns the state of the sandbox as one that was started ahead.
func (rec *Record) Pooled() PooledState { return PooledState{rec} }

// PublishedPath returns the path of the name by which a spare of the shape is offered. To unlink it is to claim the
// spare: one process succeeds.
func (s PooledState) PublishedPath(shape string) string {
	return filepath.Join(s.rec.dir.index(shape), s.rec.id)
}

// CreatePooled makes the directory of a spare, with its lock: without, the directory is half made, and
// another process may remove it. After an error nothing is left of it.
func (d *Dir) CreatePooled(r *PooledRecord) (*Record, *Lock, error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	rec := d.Record(r.Config.ID)
	step.Reached("spare: lock taken")
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

// Publish lets others claim a spare. A spare that is claimed is not offered again.
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

// HasPools reports whether spares were ever started.
func (d *Dir) HasPools() bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(d.path, pooledDir), &st) == nil
}

// names returns the names in a directory, in no order; nil if the directory does not exist. It opens
// the directory without package os, which asks the poller first.
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

// Claim makes a spare of the shape the sandbox with the configuration c, whose ID it sets. It returns nil if
// there is none. caller is as for [Dir.Create], and so is [runtime.ErrExists]. After an error there is no
// such sandbox; b is then a spare that was claimed, which the caller ends, or nil.
func (d *Dir) Claim(c Draft, shape string) (rec *Record, caller *os.File, err error) {
	list, _ := names(d.index(shape)) // one that cannot be read has none for us
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
	first := rand.IntN(len(list)) // so that takers do not all try the same
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

// claimName makes sure that no sandbox has the name, nor gets it until unlock is called. An empty name is always free.
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

// claim is Claim for one spare. It opens what it needs before it calls claim: it leaves a spare that it cannot look at to others. claimed
// is false if the spare's shim has ended, or if claim returns false, since another process has claimed the spare. Then err is nil.
func (s PooledState) claim(c Draft, unpublish func() bool) (caller *os.File, claimed bool, err error) {
	// With the configuration's lock no process removes the directory; see RemoveIncomplete.
	settled, err := s.rec.TryLockConfig()
	if err != nil {
		return nil, false, nil // another process takes or removes it, or as above
	}
	defer settled()
	lives, err := s.rec.held(shimPart, 1)
	if err != nil {
		return nil, false, nil // as above
	}
	if !lives || !s.rec.IsIncomplete() {
		unpublish() // so that it is offered no more
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
	step.Reached("take: claimed")
	c.ID = s.rec.id
	if l := newLifetime(c.Config, Now()); l != nil {
		err = statefile.Write(filepath.Join(s.rec.path, lifetimeFile), l)
		step.Reached("take: lifetime recorded")
	}
	if err == nil {
		err = c.write(s.rec, statefile.WritePrepared) // last: now the sandbox exists
	}
	if err != nil {
		_ = caller.Close() // nil is fine
		return nil, true, runtime.Errorf(runtime.ErrUnavailable, "record the sandbox: %w", err)
	}
	step.Reached("take: recorded")
	return caller, true, nil
}

// Record reads the record of a spare. fs.ErrNotExist: it is none.
func (s PooledState) Record() (*PooledRecord, error) {
	r := new(PooledRecord)
	return r, statefile.Read(filepath.Join(s.rec.path, pooledFile), r)
}

// WasPooled reports whether the directory was made for a spare.
func (s PooledState) WasPooled() bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(s.rec.path, pooledFile), &st) == nil
}

// IsAlive reports whether the directory is that of a spare whose processes live, and so not half made. If
// IsAlive cannot find that out, it returns true.
func (s PooledState) IsAlive() bool {
	if !s.WasPooled() {
		return false
	}
	lives, err := s.rec.Locked()
	return lives || err != nil && !errors.Is(err, runtime.ErrNotFound)
}

// IsPooled reports whether the shim of a spare waits for a user, which may have ended.
func (s PooledState) IsPooled() bool {
	var st unix.Stat_t
	return unix.Lstat(PooledSocket(s.rec.Run()), &st) == nil
}

// Published returns the spares that are offered, by shape, and removes what is offered of those that have ended.
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

// PublishedOf is Published for one shape. It reads no record: those of many spares take milliseconds.
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

// Unpublish claims a spare to end it. withdrawn is false if another process has claimed it.
func (s PooledState) Unpublish(shape string) (withdrawn bool) {
	return unix.Unlink(s.PublishedPath(shape)) == nil
}

// tryAll takes the configuration's lock and the sandbox's, to remove what is half made. ErrConflict: another
// process has one of them.
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
