// Package statedir defines the layout of the state directory, which is the authoritative
// record of all sandboxes, without a daemon.
//
// docs/state.md has the files, and who locks what.
//
// If root created the sandbox, all but run/ is root's. The files in run/ are written by
// processes that a sandbox may have taken over: they are read without following links and
// up to a bound, and nothing of importance depends on them.
//
// The shim syncs config.json, which must survive a crash of the machine, after it is
// ready: so a start does not wait for the disk.
package statedir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A Dir is a state directory. It is safe for concurrent use, also by several
// processes.
type Dir struct {
	path string
	mode fs.FileMode   // of directories that dropped users pass
	turn chan struct{} // has a value while a call of this process waits for the lock, or has it
}

// Default returns the state directory's path for the user: WOLFFIA_STATE_DIR,
// else XDG_STATE_HOME/wolffia, else ~/.local/state/wolffia; for root
// /var/lib/wolffia.
func Default(getenv func(string) string, uid int) (string, error) {
	if d := getenv("WOLFFIA_STATE_DIR"); d != "" {
		return filepath.Abs(d)
	}
	if uid == 0 {
		return "/var/lib/wolffia", nil
	}
	if d := getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "wolffia"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", runtime.Errorf(runtime.ErrInvalid, "state directory: HOME is not set: set it, or WOLFFIA_STATE_DIR")
	}
	return filepath.Join(home, ".local", "state", "wolffia"), nil
}

// Open returns the state directory at path, which must be absolute. It creates the
// directory if it does not exist, and resolves symbolic links: mounts and labels have one
// path, whatever name it was opened by. ErrUnavailable: it cannot be used.
func Open(path string) (*Dir, error) {
	d := &Dir{mode: 0o700, turn: make(chan struct{}, 1)}
	if os.Geteuid() == 0 {
		d.mode = 0o711
	}
	err := checkText(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	for _, p := range []string{path, filepath.Join(path, "sandboxes")} {
		if err == nil {
			err = EnsureDir(p, d.mode, 0o022)
		}
		if err != nil {
			return nil, unusable(path, err)
		}
	}
	if d.path, err = filepath.EvalSymlinks(path); err == nil {
		err = checkText(d.path)
	}
	if err != nil {
		return nil, unusable(path, err)
	}
	return d, nil
}

// checkText returns an error for a path that is not UTF-8: the processes of a sandbox get paths as
// JSON.
func checkText(path string) error {
	if !utf8.ValidString(path) {
		return fmt.Errorf("its path is not UTF-8: %q", path)
	}
	return nil
}

// unusable returns err as the error of a state directory that another one can replace.
func unusable(path string, err error) error {
	return runtime.Errorf(runtime.ErrUnavailable, "state directory %s: %w; choose another with --state-dir or WOLFFIA_STATE_DIR", path, err)
}

// Try takes the lock, and writes and removes a file, as each sandbox does. ErrUnavailable: that
// fails, as on a full disk.
func (d *Dir) Try() error {
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	name := filepath.Join(d.path, "try")
	err = os.WriteFile(name, make([]byte, 4096), 0o600)
	if gone := os.Remove(name); err == nil {
		err = gone
	}
	if err != nil {
		return unusable(d.path, err)
	}
	return nil
}

// EnsureDir makes a directory with this mode, or checks one that exists: the user must own
// it, and others must not have the permissions deny.
func EnsureDir(path string, mode, deny fs.FileMode) error {
	err := os.Mkdir(path, mode)
	if err == nil {
		return os.Chmod(path, mode) // whatever the umask
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return errors.New("not a directory")
	case int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return fmt.Errorf("its owner is uid %d, not you", st.Sys().(*syscall.Stat_t).Uid)
	case st.Mode()&deny != 0:
		return fmt.Errorf("others may use it: chmod %o %s", mode, path)
	}
	return nil
}

// Path returns the path of the state directory.
func (d *Dir) Path() string { return d.path }

// Record returns the record of the sandbox with this id, whether or not it exists.
func (d *Dir) Record(id string) *Record {
	return &Record{dir: d, id: id, path: filepath.Join(d.path, "sandboxes", id)}
}

// IDs returns the ids of all sandboxes, in no particular order.
func (d *Dir) IDs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, "sandboxes"))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "list sandboxes: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if runtime.IsID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Each calls f with the configuration of each sandbox and each pooled sandbox, in the order of
// their ids. Those that cannot be read are an error, after all others: what they use must not count
// as unused.
func (d *Dir) Each(f func(*Config)) error {
	ids, err := d.IDs()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		rec := d.Record(id)
		c, err := rec.Config()
		if errors.Is(err, runtime.ErrNotFound) {
			if !rec.Pooled().IsAlive() {
				continue
			}
			var r *PooledRecord
			if r, err = rec.Pooled().Record(); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				c = &r.Config
			}
		}
		if errs = append(errs, err); err == nil {
			f(c)
		}
	}
	return errors.Join(errs...)
}

// A NoSandboxError says that a reference means no sandbox. Its class is [runtime.ErrNotFound].
type NoSandboxError struct{ Ref string }

func (e *NoSandboxError) Error() string {
	return fmt.Sprintf("no sandbox %q: wolffia ls shows those there are", e.Ref)
}

// Unwrap returns the class.
func (e *NoSandboxError) Unwrap() error { return runtime.ErrNotFound }

// Find returns the sandbox that ref means: an id, a name, or a unique beginning of an id.
// A sandbox of that name that has not expired wins over one that has. [NoSandboxError],
// ErrInvalid: no sandbox, or several.
func (d *Dir) Find(ref string) (*Record, error) {
	notFound := &NoSandboxError{ref}
	if runtime.IsID(ref) {
		if rec := d.Record(ref); rec.Stamp() != (statefile.Stamp{}) || rec.runsUnknown() {
			return rec, nil
		}
	}
	if ref == "" || runtime.IsID(ref) {
		return nil, notFound
	}
	ids, err := d.IDs()
	if err != nil {
		return nil, err
	}
	var starting []string
	var over *Record // sandboxes that have expired do not occupy their names
	for _, id := range ids {
		if strings.HasPrefix(id, ref) {
			starting = append(starting, id)
		}
		rec := d.Record(id)
		if !rec.mentions(ref) {
			continue
		}
		if c, err := rec.LoadHeader(); err == nil && c.Name == ref {
			if !rec.over(c) {
				return rec, nil
			}
			over = rec
		}
	}
	if over != nil {
		return over, nil
	}
	switch len(starting) {
	case 0:
		return nil, notFound
	case 1:
		return d.Record(starting[0]), nil
	}
	slices.Sort(starting)
	return nil, runtime.Errorf(runtime.ErrInvalid, "%q is the beginning of several ids: %s", ref, strings.Join(starting, ", "))
}

// mentions reports whether the configuration has the name somewhere. To decode it would take a
// hundred times as long, for the rules.
func (rec *Record) mentions(name string) bool {
	text, err := statefile.ReadBytes(rec.ConfigFile(), statefile.MaxFile)
	// a name has no character that JSON escapes
	return err == nil && bytes.Contains(text, []byte(`"`+name+`"`))
}

// Create makes the directory of a new sandbox, with its configuration. It calls fill, unless that
// is nil, to put more into the directory before the sandbox exists. After an error
// nothing is left of it. If the sandbox is bound to its caller, the caller keeps it alive
// by the file caller, which it closes; otherwise caller is nil. See [Record.HasCaller].
// ErrExists: the id or the name is taken.
func (d *Dir) Create(c Draft, fill func(*Record) error) (_ *Record, caller *os.File, err error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if c.Name != "" {
		if err := d.nameFree(c.Name); err != nil {
			return nil, nil, err
		}
	}
	rec := d.Record(c.ID)
	step.Reached("create: lock taken")
	if err := d.make(rec, c.Config, &caller, func() error {
		if l := newLifetime(c.Config, Now()); l != nil {
			return statefile.Write(filepath.Join(rec.path, lifetimeFile), l)
		}
		return nil
	}, func() error {
		if fill == nil {
			return nil
		}
		return fill(rec)
	}, func() error { return c.write(rec, statefile.Write) }); err != nil { // last: now the sandbox exists
		return nil, nil, err
	}
	return rec, caller, nil
}

// nameFree returns an error if a sandbox has the name. The caller holds the lock.
func (d *Dir) nameFree(name string) error {
	if rec, err := d.Find(name); err == nil {
		if other, err := rec.LoadHeader(); err == nil && other.Name == name && !rec.over(other) {
			return runtime.Errorf(runtime.ErrExists, "name %[1]q is taken by sandbox %[2]s: take another name, or wolffia rm -f %[1]s removes that sandbox", name, rec.id)
		}
	}
	return nil
}

// make makes the directory b for the configuration c, and calls more for what else is in it. After
// an error nothing is left. The caller holds the lock, and closes *caller, which is as for Create;
// a nil caller is not set.
func (d *Dir) make(rec *Record, c *Config, caller **os.File, more ...func() error) (err error) {
	if err := os.Mkdir(rec.path, d.mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return runtime.Errorf(runtime.ErrExists, "sandbox %s exists already", c.ID)
		}
		return runtime.Errorf(runtime.ErrUnavailable, "make the sandbox's directory: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		if caller != nil {
			_ = (*caller).Close() // nil is fine
		}
		err = errors.Join(err, rec.Remove())
	}()
	for _, do := range append([]func() error{
		func() error { return os.Chmod(rec.path, d.mode) },
		func() error { return statefile.Create(rec.Lockfile(), nil) },
		func() (err error) {
			if c.BoundToCaller && caller != nil {
				*caller, err = rec.holdAsCaller()
			}
			return err
		},
		func() error { return rec.MakeRun(c) },
		func() error { return statefile.Create(filepath.Join(rec.Run(), "log"), nil) },
		func() error { return c.give(filepath.Join(rec.Run(), "log")) },
		func() error {
			if !c.CopyOnWrite {
				return nil
			}
			return rec.makeCow(c)
		},
	}, more...) {
		if err := do(); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "make the sandbox's directory: %w", err)
		}
		step.Reached("create: one more made")
	}
	return nil
}

// MakeRun makes the run directory, for the user that the sandbox's processes run as, if it does
// not exist.
func (rec *Record) MakeRun(c *Config) error {
	if err := mkdir(rec.Run()); err != nil {
		return err
	}
	return c.give(rec.Run())
}

// give gives a file to the user that the processes of a sandbox drop to; it does nothing if they
// keep the caller's.
func (c *Config) give(path string) error {
	if c.DroppedUID == 0 {
		return nil
	}
	return os.Lchown(path, c.DroppedUID, c.DroppedGID)
}

// openLock opens the lock of the state directory, and makes it if it does not exist.
func (d *Dir) openLock() (*os.File, error) {
	path := filepath.Join(d.path, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		err = f.Chmod(0o600) // whatever the umask
	}
	return f, err
}

// lockLimit is how long a process may hold the lock of the state directory: it makes or removes a
// directory meanwhile.
const lockLimit = 10 * time.Second

// turnLimit is how long a call waits for others of this process, each of which may wait for another
// process. Of many calls one at a time is a thread that waits in the kernel.
const turnLimit = 2 * time.Minute

// lock takes the lock of the state directory, which serializes Create and RemoveIncomplete.
func (d *Dir) lock() (unlock func(), err error) {
	over := time.NewTimer(turnLimit)
	defer over.Stop()
	select {
	case d.turn <- struct{}{}:
	case <-over.C:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock the state directory: too many calls wait for it: try again")
	}
	release, err := d.lockFile()
	if err != nil {
		<-d.turn
		return nil, err
	}
	return sync.OnceFunc(func() {
		release()
		<-d.turn
	}), nil
}

// lockFile takes the lock, which this process does not have.
func (d *Dir) lockFile() (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockLimit, errors.New("another process of wolffia has held it for too long: is one stopped?"))
	defer cancel()
	f, err := d.openLock()
	if err != nil {
		return nil, unusable(d.path, err)
	}
	if unlock, err = filelock.Wait(ctx, f, unix.F_WRLCK, 0, 0); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock the state directory: %w", err)
	}
	return unlock, nil
}
