// Package volume keeps directories below the state directory that outlive sandboxes.
//
// A volume is made when the first sandbox is created that has it
// ([runtime.SandboxConfig.Volumes]), and stays until it is removed or pruned. What is in it
// was written by sandboxes, and is hostile: programs of the host must not use it.
package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A Store is the volumes of a state directory. It is safe for concurrent use, also by
// several processes.
type Store struct {
	state, path string
	mode        fs.FileMode // of directories that dropped users pass
}

// Open returns the volumes of a state directory, which need not exist.
func Open(stateDir string) *Store {
	s := &Store{state: stateDir, path: statedir.Volumes(stateDir), mode: 0o700}
	if os.Geteuid() == 0 {
		s.mode = 0o711
	}
	return s
}

// A Volume is what is recorded of a volume.
type Volume struct {
	Name string `json:"name"`
	// what it caches, such as go; empty: it is not a cache
	Cache string `json:"cache,omitempty"`
	// the only one whose sandboxes may have it; empty: all may
	Codebase string `json:"codebase,omitempty"`
	// that the sandboxes have in common which may have it; Codebase is then their repository
	Key       string `json:"key,omitempty"`
	UID       int    `json:"uid"`            // as which the sandboxes run
	Root      bool   `json:"root,omitempty"` // they have root inside: files may be of other ids of the user's range
	CreatedAt int64  `json:"createdAt"`      // ms since 1970
}

// homePrefix begins the names of volumes that are home directories.
const homePrefix = "home-"

// HomeName returns the name of the volume that is the home directory called name.
func HomeName(name string) string { return homePrefix + name }

// Kind returns "cache", "home" or "volume".
func (v *Volume) Kind() string {
	switch {
	case v.Cache != "":
		return "cache"
	case strings.HasPrefix(v.Name, homePrefix):
		return "home"
	}
	return "volume"
}

// The names below the directory. Those of volumes begin with a letter or digit.
const (
	lockFile = ".lock" // held while volumes are made, renamed or about to be used
	coming   = ".new-" // and a volume's name: it is being made
	// and an id: it is being removed; its record is locked by the process that does
	going   = ".old-"
	record  = "volume.json"
	trimmed = ".trimmed" // its modification time is when caches were last pruned by size
)

// lockLimit bounds the wait for another process, which has the lock for milliseconds.
const lockLimit = time.Minute

// lock takes the lock. The directory exists.
func (s *Store) lock(ctx context.Context) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.path, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, storeError(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockLimit, errors.New("another process uses the volumes, and did not finish in time"))
	defer cancel()
	release, err = filelock.Wait(ctx, f, unix.F_WRLCK, 0, 1)
	return release, storeError(err)
}

// storeError says that the host is at fault. It returns nil for nil.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return runtime.Errorf(runtime.ErrUnavailable, "volumes: %w", err)
}

// A User says for which sandbox volumes are used.
type User struct {
	Codebase string // the resolved path; empty: none
	UID, GID int    // on the host
	Root     bool   // with root inside
}

// Use makes those of the mounts' volumes that do not exist, and checks that the others are
// for this user. Until release is called, no volume is removed: a caller that creates a
// sandbox records it first. ErrConflict: a volume is another user's or codebase's, or of
// sandboxes that have root inside where this one has not, and the other way around.
func (s *Store) Use(ctx context.Context, mounts []runtime.VolumeMount, u *User) (release func(), err error) {
	if len(mounts) == 0 {
		return func() {}, nil
	}
	if err := makeDir(s.path, s.mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, storeError(err)
	}
	if release, err = s.lock(ctx); err != nil {
		return nil, err
	}
	for i := range mounts {
		if err := s.useOne(&mounts[i], u); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// useOne is Use of one volume, for a caller that has the lock.
func (s *Store) useOne(m *runtime.VolumeMount, u *User) error {
	if !runtime.IsVolumeName(m.Name) { // it becomes a path
		return runtime.Errorf(runtime.ErrInvalid, "volume %q: not a volume's name", m.Name)
	}
	// or without a codebase the shared one
	of := u.Codebase
	own := m.Cache != "" && m.Name == CacheName(m.Cache, of, u.Root)
	if m.Key != "" {
		of = m.Repository
		own = m.Name == KeyedName(m.Cache, of, m.Key, u.UID)
	}
	v, err := s.read(m.Name)
	if errors.Is(err, fs.ErrNotExist) {
		v = &Volume{Name: m.Name, Cache: m.Cache, Key: m.Key, UID: u.UID, Root: u.Root, CreatedAt: time.Now().UnixMilli()}
		if own {
			v.Codebase = of
		}
		return storeError(s.make(v, u.GID))
	}
	switch {
	case err != nil:
		return err
	case v.UID != u.UID:
		return runtime.Errorf(runtime.ErrConflict, "volume %q belongs to uid %d, and the sandbox runs as uid %d: use another name, or remove the volume with wolffia volume rm %s", v.Name, v.UID, u.UID, v.Name)
	case v.Root && !u.Root:
		return runtime.Errorf(runtime.ErrConflict, "volume %q is of sandboxes with --root, and may have files of other users: add --root, or use another name", v.Name)
	case u.Root && !v.Root:
		return runtime.Errorf(runtime.ErrConflict, "volume %q is of sandboxes without --root, which could not use files of other users: use another name with --root", v.Name)
	case v.Codebase != "" && v.Codebase != of:
		return runtime.Errorf(runtime.ErrConflict, "volume %q is for sandboxes over the codebase %s only: use another name, or remove the volume with wolffia volume rm %s", v.Name, v.Codebase, v.Name)
	case m.Cache != "" && (v.Cache != m.Cache || v.Key != m.Key || own && v.Codebase != of):
		return runtime.Errorf(runtime.ErrConflict, "volume %q was not made as this cache, so what is in it may be of other sandboxes: remove it with wolffia volume rm %s", v.Name, v.Name)
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(s.path, v.Name, record), now, now) // at worst it is pruned early
	return nil
}

// Touch notes that the mounts' volumes are used now, and reports whether all of them exist.
func (s *Store) Touch(mounts []runtime.VolumeMount) bool {
	now := time.Now()
	for _, m := range mounts {
		if !runtime.IsVolumeName(m.Name) || os.Chtimes(filepath.Join(s.path, m.Name, record), now, now) != nil {
			return false
		}
	}
	return true
}

// read reads the record of a volume. fs.ErrNotExist: it does not exist.
func (s *Store) read(name string) (*Volume, error) {
	if _, err := os.Lstat(filepath.Join(s.path, name)); err != nil {
		return nil, err
	}
	v := new(Volume)
	err := statefile.Read(filepath.Join(s.path, name, record), v)
	if err == nil && v.Name != name {
		err = fmt.Errorf("its name is %q", v.Name)
	}
	if err != nil { // not %w: it is not missing
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the record of volume %q is damaged: %s; remove the volume with wolffia volume rm %s", name, err.Error(), name)
	}
	return v, nil
}

// make makes a volume, for a caller that has the lock. It appears when all of it exists.
func (s *Store) make(v *Volume, gid int) error {
	// of a process that was killed
	if err := rmtree.RemovePath(s.path, coming+v.Name); err != nil {
		return err
	}
	dir := filepath.Join(s.path, coming+v.Name)
	for _, do := range []func() error{
		func() error { return makeDir(dir, s.mode) },
		func() error { return makeDir(filepath.Join(dir, "data"), 0o700) },
		func() error {
			if os.Geteuid() != 0 {
				return nil
			}
			return os.Lchown(filepath.Join(dir, "data"), v.UID, gid)
		},
		func() error { return statefile.WriteSync(filepath.Join(dir, record), v) },
		func() error { return os.Rename(dir, filepath.Join(s.path, v.Name)) },
	} {
		if err := do(); err != nil {
			return errors.Join(err, rmtree.RemovePath(s.path, coming+v.Name))
		}
		step.Reached("volume: one more made")
	}
	return nil
}

// makeDir makes a directory of the mode, whatever the umask.
func makeDir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// An Entry is a volume in a list.
type Entry struct {
	Volume
	UsedAt    time.Time // when a sandbox that has it was last created or started
	Sandboxes []string  // that have it: names, or ids of those without a name; sorted
	Problem   string    // why the record cannot be read; then only Name is known
}

// List returns all volumes, sorted by name. With an error it returns them too if only the configuration
// of a sandbox cannot be read: the volumes that it has do not name it.
func (s *Store) List() ([]*Entry, error) {
	all := []*Entry{}
	names, err := os.ReadDir(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, storeError(err)
	}
	users, usersErr := s.users()
	for _, n := range names { // sorted
		if !runtime.IsVolumeName(n.Name()) {
			continue
		}
		if e := s.entry(n.Name(), users); e != nil {
			all = append(all, e)
		}
	}
	return all, usersErr
}

// Get returns a volume. ErrNotFound: it does not exist. With another error it returns it too if only the
// configuration of a sandbox cannot be read, as List does.
func (s *Store) Get(name string) (*Entry, error) {
	if runtime.IsVolumeName(name) {
		users, err := s.users()
		if e := s.entry(name, users); e != nil {
			return e, err
		}
	}
	return nil, missing(name)
}

func missing(name string) error {
	return runtime.Errorf(runtime.ErrNotFound, "no volume %q: wolffia volume ls shows those there are", name)
}

// entry returns a volume, or nil if it does not exist.
func (s *Store) entry(name string, users map[string][]string) *Entry {
	v, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	e := &Entry{Sandboxes: users[name]}
	if err != nil {
		e.Name, e.Problem = name, err.Error()
	} else {
		e.Volume = *v
	}
	if st, err := os.Lstat(filepath.Join(s.path, name, record)); err == nil {
		e.UsedAt = st.ModTime()
	}
	return e
}

// users returns the sandboxes of each volume, by its name.
func (s *Store) users() (map[string][]string, error) {
	dir, err := statedir.Open(s.state)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	err = dir.Each(func(c *statedir.Config) {
		for _, m := range c.Volumes {
			if user := cmp.Or(c.Name, c.ID); !slices.Contains(users[m.Name], user) {
				users[m.Name] = append(users[m.Name], user)
			}
		}
	})
	if err != nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "not all volumes that sandboxes have are known: %w", err)
	}
	for _, list := range users {
		slices.Sort(list)
	}
	return users, err
}

// Data returns the path on the host of what a volume contains, which is hostile. The volume
// need not exist.
func (s *Store) Data(name string) string { return statedir.VolumeData(s.path, name) }
