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

// A SpareRecord is what is recorded of a sandbox that was started before it has a user. Its directory has no
// configuration, so that it is no sandbox yet; and while it lives, its processes hold the lock.
type SpareRecord struct {
	Config Config `json:"config"` // of the template, completed
	Shape  string `json:"shape"`  // the name of the index in which it is offered
	Since  int64  `json:"since"`  // ms since 1970
	Idle   int64  `json:"idleMs"` // how long it waits for a user from Since on
}

const (
	sparesDir   = "spares"
	spareFile   = "spare.json"
	spareSocket = "spare"
)

// SpareSocket returns the path at which the shim of a spare listens.
func SpareSocket(run string) string { return filepath.Join(run, spareSocket) }

// index returns the directory with the names of the spares of a shape.
func (d *Dir) index(shape string) string { return filepath.Join(d.path, sparesDir, shape) }

// A SpareState is what a Box has of a sandbox that was started ahead.
type SpareState struct{ box *Box }

// Spare returns the state of the sandbox as one that was started ahead.
func (b *Box) Spare() SpareState { return SpareState{b} }

// Offered returns the path of the name by which a spare of the shape is offered. To unlink it is to claim the
// spare: one process succeeds.
func (s SpareState) Offered(shape string) string {
	return filepath.Join(s.box.dir.index(shape), s.box.id)
}

// CreateSpare makes the directory of a spare, with its lock: without, the directory is half made, and
// another process may remove it. After an error nothing is left of it.
func (d *Dir) CreateSpare(r *SpareRecord) (*Box, *Lock, error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	b := d.Box(r.Config.ID)
	step.Reached("spare: lock taken")
	var lock *Lock
	err = d.make(b, &r.Config, nil,
		func() error { return statefile.Write(filepath.Join(b.path, spareFile), r) },
		func() error { return statefile.Prepare(b.ConfigFile()) },
		func() (err error) {
			lock, err = b.TryLock()
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	return b, lock, nil
}

// Offer lets others claim a spare. A spare that is claimed is not offered again.
func (s SpareState) Offer(shape string) error {
	for range 3 { // another process removes the directory when it is empty
		err := errors.Join(mkdir(filepath.Join(s.box.dir.path, sparesDir)), mkdir(s.box.dir.index(shape)))
		if err == nil {
			err = statefile.Create(s.Offered(shape), nil)
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
	return unix.Lstat(filepath.Join(d.path, sparesDir), &st) == nil
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

// Take makes a spare of the shape the sandbox with the configuration c, whose ID it sets. It returns nil if
// there is none. caller is as for [Dir.Create], and so is [runtime.ErrExists]. After an error there is no
// such sandbox; b is then a spare that was claimed, which the caller ends, or nil.
func (d *Dir) Take(c Draft, shape string) (b *Box, caller *os.File, err error) {
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
		if b == nil || err != nil {
			c.ID = id
		}
	}()
	first := rand.IntN(len(list)) // so that takers do not all try the same
	for i := range list {
		b := d.Box(list[(first+i)%len(list)])
		if !runtime.IsID(b.id) {
			continue
		}
		if caller, claimed, err := b.Spare().take(c, func() bool { return b.Spare().Withdraw(shape) }); claimed {
			return b, caller, err
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

// take is Take for one spare. It opens what it needs before it calls claim: it leaves a spare that it cannot look at to others. claimed
// is false if the spare's shim has ended, or if claim returns false, since another process has claimed the spare. Then err is nil.
func (s SpareState) take(c Draft, claim func() bool) (caller *os.File, claimed bool, err error) {
	// With the configuration's lock no process removes the directory; see RemoveHalf.
	settled, err := s.box.TryLockConfig()
	if err != nil {
		return nil, false, nil // another process takes or removes it, or as above
	}
	defer settled()
	lives, err := s.box.held(shimPart, 1)
	if err != nil {
		return nil, false, nil // as above
	}
	if !lives || !s.box.Half() {
		claim() // so that it is offered no more
		return nil, false, nil
	}
	if c.BoundToCaller {
		if caller, err = s.box.holdAsCaller(); err != nil {
			return nil, false, nil // as above
		}
	}
	if !claim() {
		_ = caller.Close() // nil is fine
		return nil, false, nil
	}
	step.Reached("take: claimed")
	c.ID = s.box.id
	if l := newLifetime(c.Config, Now()); l != nil {
		err = statefile.Write(filepath.Join(s.box.path, lifetimeFile), l)
		step.Reached("take: lifetime recorded")
	}
	if err == nil {
		err = c.write(s.box, statefile.WritePrepared) // last: now the sandbox exists
	}
	if err != nil {
		_ = caller.Close() // nil is fine
		return nil, true, runtime.Errorf(runtime.ErrUnavailable, "record the sandbox: %w", err)
	}
	step.Reached("take: recorded")
	return caller, true, nil
}

// Record reads the record of a spare. fs.ErrNotExist: it is none.
func (s SpareState) Record() (*SpareRecord, error) {
	r := new(SpareRecord)
	return r, statefile.Read(filepath.Join(s.box.path, spareFile), r)
}

// Was reports whether the directory was made for a spare.
func (s SpareState) Was() bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(s.box.path, spareFile), &st) == nil
}

// Lives reports whether the directory is that of a spare whose processes live, and so not half made. If
// Lives cannot find that out, it returns true.
func (s SpareState) Lives() bool {
	if !s.Was() {
		return false
	}
	lives, err := s.box.Locked()
	return lives || err != nil && !errors.Is(err, runtime.ErrNotFound)
}

// Waits reports whether the shim of a spare waits for a user, which may have ended.
func (s SpareState) Waits() bool {
	var st unix.Stat_t
	return unix.Lstat(SpareSocket(s.box.Run()), &st) == nil
}

// Offering returns the spares that are offered, by shape, and removes what is offered of those that have ended.
func (d *Dir) Offering() (map[string][]string, error) {
	shapes, err := names(filepath.Join(d.path, sparesDir))
	all := map[string][]string{}
	for _, shape := range shapes {
		ids, oerr := d.Offered(shape)
		err = errors.Join(err, oerr)
		if len(ids) > 0 {
			all[shape] = ids
		}
	}
	return all, err
}

// Offered is Offering for one shape. It reads no record: those of many spares take milliseconds.
func (d *Dir) Offered(shape string) (ids []string, err error) {
	list, err := names(d.index(shape))
	for _, id := range list {
		b := d.Box(id)
		if !runtime.IsID(id) || !b.Spare().Lives() || !b.Half() {
			_ = unix.Unlink(b.Spare().Offered(shape))
			continue
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		_ = unix.Rmdir(d.index(shape)) // fails if one was added
	}
	return ids, err
}

// Withdraw claims a spare to end it. withdrawn is false if another process has claimed it.
func (s SpareState) Withdraw(shape string) (withdrawn bool) {
	return unix.Unlink(s.Offered(shape)) == nil
}

// tryAll takes the configuration's lock and the sandbox's, to remove what is half made. ErrConflict: another
// process has one of them.
func (b *Box) tryAll() (release func(), err error) {
	settled, err := b.TryLockConfig()
	if err != nil {
		return nil, err
	}
	lock, err := b.TryLock()
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
