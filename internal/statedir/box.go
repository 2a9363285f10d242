package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/rmtree"
	"wolffia/internal/statefile"
	"wolffia/internal/step"
	"wolffia/runtime"
)

// A Box is the place of one sandbox.
type Box struct {
	dir  *Dir
	id   string
	path string
}

// A Config is what was asked for at Create, with all that was decided then.
type Config struct {
	runtime.SandboxConfig
	CreatedAt int64 `json:"createdAt"` // ms since 1970
	// UID and GID are the identity inside and on the host.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// DroppedUID and DroppedGID are set if root created the sandbox: they own
	// what is in run/.
	DroppedUID int `json:"droppedUid,omitempty"`
	DroppedGID int `json:"droppedGid,omitempty"`
	// RootTree says that the codebase is root's, so that the tree server keeps
	// root's access to it.
	RootTree bool   `json:"rootTree,omitempty"`
	User     string `json:"user"` // the user's name inside
}

// A Status is what a shim says of its sandbox.
type Status struct {
	State  runtime.State `json:"state"`
	Reason string        `json:"reason,omitempty"`
	// Expired is set if it was ended because its lifetime was over.
	Expired runtime.Expiry `json:"expired,omitempty"`
}

// ID is the sandbox's id.
func (b *Box) ID() string { return b.id }

// Run is the directory that the shim may write to.
func (b *Box) Run() string { return filepath.Join(b.path, "run") }

// Mnt is where the shim mounts.
func (b *Box) Mnt() string { return filepath.Join(b.path, "run", "mnt") }

// Engine is where a keeper puts down what it shows to its engine. While it is
// there, something of the sandbox may be in the engine, or mounted here.
func (b *Box) Engine() string { return filepath.Join(b.path, "engine") }

// HasEngine reports whether Engine is there.
func (b *Box) HasEngine() bool {
	_, err := os.Lstat(b.Engine())
	return !errors.Is(err, fs.ErrNotExist)
}

// Lockfile is what the shim locks.
func (b *Box) Lockfile() string { return filepath.Join(b.path, "lock") }

// Upper is where what a sandbox changes of its image is kept, and Work is for
// overlayfs meanwhile. Both are there once a sandbox on an image was started.
func Upper(run string) string { return filepath.Join(run, upperDir) }

// Work is beside Upper.
func Work(run string) string { return filepath.Join(run, workDir) }

const (
	upperDir = "upper"
	workDir  = "work"
)

// Log is the file with what shim, guest and backend had to say.
func (b *Box) Log() string { return filepath.Join(b.path, "run", "log") }

// Audit is the log of what the tree has denied: see package audit.
func (b *Box) Audit() string { return Audit(b.Run()) }

// Audit is Box.Audit for the tree server, which knows the run directory only.
func Audit(run string) string { return filepath.Join(run, auditLog) }

const auditLog = "audit.log"

// ConfigFile is the configuration. While it is there, the sandbox is.
func (b *Box) ConfigFile() string { return filepath.Join(b.path, configFile) }

const configFile = "config.json"

// Config reads the configuration. ErrNotFound: there is no such sandbox, or it
// is only half made.
func (b *Box) Config() (*Config, error) {
	c := new(Config)
	err := statefile.Read(b.ConfigFile(), c)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !b.runsUnknown():
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", b.id)
	case err == nil && c.ID != b.id:
		err = fmt.Errorf("it is of sandbox %q", c.ID)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s is damaged: %w; remove it with wolffia rm -f %s", b.id, err, b.id)
	}
	return c, nil
}

// runsUnknown reports whether a sandbox runs without a configuration: somebody
// has deleted that. Whoever destroys a sandbox keeps the configuration's lock
// until the place is gone, and a shim that removes its own has taken its socket
// away before.
func (b *Box) runsUnknown() bool {
	if _, err := os.Lstat(filepath.Join(b.Run(), socket)); err != nil {
		return false
	}
	changing, err := b.held(configPart, 1)
	if changing || err != nil {
		return false
	}
	runs, err := b.held(shimPart, 1)
	return runs && err == nil
}

// SetConfig replaces the configuration, on the disk too. The caller holds what
// LockConfig gives, and has read since that the sandbox is there.
func (b *Box) SetConfig(c *Config) error {
	err := statefile.WriteSync(b.ConfigFile(), c)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: %w", b.id, err)
	}
	return nil
}

// SetLimits records what keeps the sandbox's limits, and so where to look for
// what has to be removed after it.
func (b *Box) SetLimits(v any) error { return statefile.Write(filepath.Join(b.path, limitsFile), v) }

// Limits reads what SetLimits has recorded; fs.ErrNotExist if there is nothing.
func (b *Box) Limits(v any) error { return statefile.Read(filepath.Join(b.path, limitsFile), v) }

// RemoveLimits forgets what SetLimits has recorded.
func (b *Box) RemoveLimits() error {
	err := os.Remove(filepath.Join(b.path, limitsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const limitsFile = "limits.json"

// ConfigFrom reads the configuration for a tree server that is root's, and
// knows the run directory only.
func ConfigFrom(run string) (*Config, error) {
	c := new(Config)
	return c, statefile.Read(filepath.Join(filepath.Dir(run), configFile), c)
}

// A Stamp tells one configuration from another of the same id. The zero Stamp
// is of none.
type Stamp struct {
	inode   uint64
	changed unix.Timespec
}

// Stamp identifies the configuration there is.
func (b *Box) Stamp() Stamp {
	var st unix.Stat_t
	if unix.Lstat(b.ConfigFile(), &st) != nil {
		return Stamp{}
	}
	return Stamp{st.Ino, st.Ctim}
}

// OpenConfig opens the configuration, for a shim that may not reach it: to
// sync it.
func (b *Box) OpenConfig() (*os.File, error) {
	f, err := os.Open(b.ConfigFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", b.id)
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: %w", b.id, err)
	}
	return f, nil
}

// SetStatus records what became of the sandbox, stopped or dead. It is the
// shim's to call, before it takes its socket away.
func SetStatus(run string, s *Status) error {
	return statefile.Write(filepath.Join(run, "status.json"), s)
}

// State tells where the sandbox is in its life, and why it is dead. It trusts
// the lock first: only a shim that lives can hold it, or a keeper that is about to
// have another in its place. A shim that is ready has
// its socket there, and takes it away in the end, after it has said why in
// status.json; so a start writes no file.
func (b *Box) State() (runtime.State, string, error) {
	held, err := b.held(shimPart, 1)
	if err != nil {
		return "", "", err
	}
	return b.state(held)
}

// Rest is State for whoever has the lock itself: the sandbox does not run.
func (b *Box) Rest() (runtime.State, string, error) { return b.state(false) }

func (b *Box) state(held bool) (runtime.State, string, error) {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(b.Run(), socket), &st) == nil {
		if held {
			return runtime.StateRunning, "", nil
		}
		return runtime.StateDead, killed, nil
	}
	var s Status
	err := statefile.Read(filepath.Join(b.Run(), "status.json"), &s)
	switch {
	case errors.Is(err, fs.ErrNotExist) && b.Half(): // it is being removed
		return "", "", runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", b.id)
	case errors.Is(err, fs.ErrNotExist):
		return runtime.StateCreated, "", nil
	case err != nil || s.State != runtime.StateStopped && s.State != runtime.StateDead:
		return runtime.StateDead, "its status is damaged", nil
	}
	return s.State, s.Reason, nil
}

// The names of a shim's socket: while it is on its way, and when it is ready.
const (
	socketComing = "sock.new"
	socket       = "sock"
)

const killed = "its shim was killed"

// PrepareRun makes run/ ready for a shim, which calls it before all else: what
// one that was killed has left is taken for what it is.
func PrepareRun(run string) error {
	_ = os.Remove(filepath.Join(run, socketComing))
	if _, err := os.Lstat(filepath.Join(run, socket)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := SetStatus(run, &Status{State: runtime.StateDead, Reason: killed}); err != nil {
		return err
	}
	step.Reached("run: an older end recorded")
	return os.Remove(filepath.Join(run, socket))
}

// SocketComing is where a shim listens before it is ready.
func SocketComing(run string) string { return filepath.Join(run, socketComing) }

// Socket is where a shim that is ready listens.
func Socket(run string) string { return filepath.Join(run, socket) }

// Remove deletes the place, name by name: a mount that should not be there, or
// a file that is not ours, stops it. What is gone already is no error.
func (b *Box) Remove() error {
	if err := removeAt(b.path); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "remove sandbox %s: %w", b.id, err)
	}
	return nil
}

// Half reports whether the place has no configuration: it is being made or
// removed, or whoever did that was killed.
func (b *Box) Half() bool {
	_, err := os.Lstat(b.ConfigFile())
	return errors.Is(err, fs.ErrNotExist)
}

// RemoveHalf deletes a place without a configuration: whoever was making it, or
// removing it, was killed. One that somebody is at, or that has a configuration,
// stays. removed says that it was there and is gone.
func (d *Dir) RemoveHalf(id string) (removed bool, err error) {
	unlock, err := d.lock() // nobody is making it
	if err != nil {
		return false, err
	}
	b := d.Box(id)
	if _, err := os.Lstat(b.path); err != nil || !b.Half() {
		unlock()
		return false, nil //nolint:nilerr // it is gone
	}
	lock, err := b.TryLock()
	switch {
	case errors.Is(err, runtime.ErrConflict): // it is being removed
		unlock()
		return false, nil
	case errors.Is(err, runtime.ErrNotFound): // of its files the lock is the last to go, and one of the first to come
		defer unlock()
	case err != nil:
		unlock()
		return false, err
	default:
		unlock() // with its lock nobody else can be at it, and it may be large
		defer lock.Close()
		defer lock.Unlock() //nolint:errcheck // its file is gone
	}
	err = b.Remove()
	return err == nil, err
}

// RemoveFrom is Remove for the shim, which knows its run directory only.
func RemoveFrom(run string) error { return removeAt(filepath.Dir(run)) }

func removeAt(path string) error {
	var errs []error
	remove := func(elem ...string) {
		err := os.Remove(filepath.Join(append([]string{path}, elem...)...))
		step.Reached("remove: one more gone")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	// First: without it there is no sandbox; with it, it must stay whole.
	if remove(configFile); len(errs) > 0 {
		return errs[0]
	}
	step.Reached("remove: configuration gone")
	for _, name := range []string{upperDir, workDir} {
		if err := rmtree.RemovePath(filepath.Join(path, "run"), name); err != nil {
			errs = append(errs, err)
		}
	}
	step.Reached("remove: image layer gone")
	for _, name := range []string{"mnt", "status.json", "status.json.new", socket, socketComing, "log", auditLog, auditLog + ".1"} {
		remove("run", name)
	}
	for _, name := range []string{"run", shimFile, shimFile + ".new", lifetimeFile, lifetimeFile + ".new", limitsFile, limitsFile + ".new", configFile + ".new", "lock"} {
		remove(name)
	}
	remove()
	return errors.Join(errs...)
}
