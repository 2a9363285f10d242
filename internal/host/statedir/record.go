package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// A Record is the directory of one sandbox in the state directory. The directory need not exist.
type Record struct {
	dir  *Dir
	id   string
	path string
}

// A Config is the configuration of a sandbox: the caller's, and what Create decided.
type Config struct {
	runtime.SandboxConfig
	CreatedAt int64 `json:"createdAt"` // ms since 1970
	// UID and GID are the identity on the host: see [Config.Inside].
	UID int `json:"uid"`
	GID int `json:"gid"`
	// DroppedUID and DroppedGID own the files in run/ of a sandbox that root created;
	// otherwise they are 0.
	DroppedUID int `json:"droppedUid,omitempty"`
	DroppedGID int `json:"droppedGid,omitempty"`
	// RootTree is set if the codebase is root's, so that the tree server keeps root's
	// access to it.
	RootTree bool   `json:"rootTree,omitempty"`
	User     string `json:"user"` // the user's name inside
	// SystemID is the image of the store with the host's system beside /usr, if OverHost.
	SystemID string `json:"systemId,omitempty"`
	// PrivateGit is set if the sandbox's git directories are its own, in [Git].
	PrivateGit bool `json:"privateGit,omitempty"`

	// HeaderOnly says that Permissions were not read: see [Record.LoadHeader].
	HeaderOnly bool `json:"-"`
	// NewerRules says that Permissions were not read because they are of a newer version of
	// wolffia.
	NewerRules bool `json:"-"`
}

// Inside returns the identity inside.
func (c *Config) Inside() (uid, gid int) {
	if c.Root {
		return 0, 0
	}
	return c.UID, c.GID
}

// OverHost reports whether the sandbox has root inside over the host's own system.
func (c *Config) OverHost() bool {
	return c.Root && c.Image == "" && c.ImageID == "" && c.Rootfs == ""
}

// A Draft is the configuration of a sandbox that does not exist yet.
type Draft struct {
	*Config
	// Rules are Permissions as JSON, if the caller has them already. Encoding them takes most of
	// the time that encoding the configuration takes.
	Rules []byte
}

// write writes the configuration of rec by one of the functions of statefile. The rules come last,
// for LoadHeader.
func (d *Draft) write(rec *Record, write func(path string, v any) error) error {
	if err := d.RequireRules(); err != nil {
		return err
	}
	if len(d.Permissions) == 0 {
		return write(rec.ConfigFile(), d.Config)
	}
	if d.Rules == nil {
		var err error
		if d.Rules, err = json.Marshal(d.Permissions); err != nil {
			return err
		}
	}
	less := *d.Config
	less.Permissions = nil
	header, err := json.Marshal(&less)
	if err != nil {
		return err
	}
	whole := texts.Get().(*bytes.Buffer)
	defer texts.Put(whole)
	whole.Reset()
	for _, part := range [][]byte{header[:len(header)-1], []byte(rulesKey), d.Rules, []byte("}")} {
		whole.Write(part)
	}
	return write(rec.ConfigFile(), statefile.Text(whole.Bytes()))
}

// texts has the buffers of configurations that are written: a new one was half of what a create
// from a pool allocates.
var texts = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// A Status is how a sandbox ended, as its shim records it. Its content is untrusted.
type Status struct {
	State  runtime.State `json:"state"`
	Reason string        `json:"reason,omitempty"`
	// Expired is why the sandbox's lifetime ended; "" if it did not end for that.
	Expired runtime.Expiry `json:"expired,omitempty"`
}

// ID returns the sandbox's id.
func (rec *Record) ID() string { return rec.id }

// StateDir returns the path of the state directory.
func (rec *Record) StateDir() string { return rec.dir.path }

// Run returns the directory that the shim may write to.
func (rec *Record) Run() string { return filepath.Join(rec.path, "run") }

// Mnt returns the directory on which the shim mounts, in a mount namespace of its own. All
// sandboxes share it. No process removes it: the kernel would first take down what is mounted
// there in all namespaces, and the caller would wait.
func (rec *Record) Mnt() string { return filepath.Join(rec.dir.path, "mnt") }

// MakeMnt makes the directory Mnt, if it does not exist.
func (rec *Record) MakeMnt() error {
	if err := EnsureDir(rec.Mnt(), rec.dir.mode, 0o022); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "the directory to mount on, %s: %w", rec.Mnt(), err)
	}
	return nil
}

// Engine returns the directory with what a keeper shows to its engine. While it exists,
// something of the sandbox may be in the engine, or mounted below it.
func (rec *Record) Engine() string { return filepath.Join(rec.path, "engine") }

// HasEngine reports whether the directory Engine exists.
func (rec *Record) HasEngine() bool {
	_, err := os.Lstat(rec.Engine())
	return !errors.Is(err, fs.ErrNotExist)
}

// Lockfile returns the path of the lock: see Lock.
func (rec *Record) Lockfile() string { return filepath.Join(rec.path, "lock") }

const (
	upperDir = "upper"
	workDir  = "work"
	// the same for /usr, if OverHost
	usrUpperDir = "usr-upper"
	usrWorkDir  = "usr-work"
)

// Upper returns the directory with a sandbox's changes of its image: overlayfs's upper
// directory. It exists once a sandbox on an image was started.
func Upper(run string) string { return filepath.Join(run, upperDir) }

// Work returns overlayfs's work directory, beside Upper.
func Work(run string) string { return filepath.Join(run, workDir) }

// UsrUpper returns the upper and the work directory of the overlay over the host's /usr.
func UsrUpper(run string) (upper, work string) {
	return filepath.Join(run, usrUpperDir), filepath.Join(run, usrWorkDir)
}

// Log returns the path of the log of shim, guest and backend.
func (rec *Record) Log() string { return filepath.Join(rec.path, "run", "log") }

// Audit returns the path of the log of denials, in the directory of [Record.Run]: see
// package fusefs/audit.
func Audit(run string) string { return filepath.Join(run, auditLog) }

// NetworkAudit returns the path of the log of what the network has refused, in the directory of
// [Record.Run]. It has the same form.
func NetworkAudit(run string) string { return filepath.Join(run, networkLog) }

const (
	auditLog   = "audit.log"
	networkLog = "network.log"
)

// ConfigFile returns the path of the configuration. The sandbox exists while it does.
func (rec *Record) ConfigFile() string { return filepath.Join(rec.path, configFile) }

const configFile = "config.json"

// Config reads the configuration. ErrNotFound: the sandbox does not exist, or it is
// being created or removed. ErrUnavailable: the configuration is damaged.
func (rec *Record) Config() (*Config, error) {
	return rec.read(decode)
}

// decode returns a configuration. Rules that this version does not know completely count as not
// read: see [Config.RequireRules].
func decode(text []byte) (*Config, error) {
	c := new(Config)
	rest, rules, ok := splitRules(text)
	if !ok {
		apart := struct {
			*Config
			Permissions json.RawMessage `json:"permissions"` // hides that of Config
		}{Config: c}
		if err := json.Unmarshal(text, &apart); err != nil || apart.Permissions == nil {
			return c, err
		}
		rest, rules = []byte("{}"), apart.Permissions
	}
	err := json.Unmarshal(rest, c)
	if err == nil {
		c.Permissions, err = perm.ParseJSON(rules)
	}
	if errors.Is(err, perm.ErrNewer) {
		c.HeaderOnly, c.NewerRules, err = true, true, nil
	}
	return c, err
}

// read reads the configuration, and decodes it by decode.
func (rec *Record) read(decode func(text []byte) (*Config, error)) (*Config, error) {
	var c *Config
	text, err := statefile.ReadBytes(rec.ConfigFile(), statefile.MaxFile)
	if err == nil {
		c, err = decode(text)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && !rec.runsUnknown():
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", rec.id)
	case err == nil && c.ID != rec.id:
		err = fmt.Errorf("its id is %q", c.ID)
	}
	if runtime.Exhausted(err) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: %w", rec.id, err)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s is damaged: %w; remove it with wolffia rm -f %s", rec.id, err, rec.id)
	}
	return c, nil
}

// runsUnknown reports whether a sandbox runs whose configuration was deleted by hand. A
// process that destroys a sandbox keeps the configuration's lock until the directory is
// gone, and a shim that removes its own sandbox removes its socket first.
func (rec *Record) runsUnknown() bool {
	if !rec.HasSocket() {
		return false
	}
	changing, err := rec.held(configPart, 1)
	if changing || err != nil {
		return false
	}
	runs, err := rec.held(shimPart, 1)
	return runs && err == nil
}

// SetConfig replaces the configuration, on the disk too. The caller holds the lock of
// LockConfig, and has read the configuration since it got that.
func (rec *Record) SetConfig(c *Config) error {
	if err := (&Draft{Config: c}).write(rec, statefile.WriteSync); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: %w", rec.id, err)
	}
	return nil
}

// SetLimits records what enforces the sandbox's limits, such as a control group, so that
// it can be removed after the sandbox.
func (rec *Record) SetLimits(v any) error {
	return statefile.Write(filepath.Join(rec.path, limitsFile), v)
}

// Limits reads the record of SetLimits. fs.ErrNotExist: there is no record.
func (rec *Record) Limits(v any) error { return statefile.Read(filepath.Join(rec.path, limitsFile), v) }

// RemoveLimits removes the record of SetLimits, if any.
func (rec *Record) RemoveLimits() error {
	return removeIfExists(filepath.Join(rec.path, limitsFile))
}

const limitsFile = "limits.json"

// ConfigFrom reads the configuration for a tree server of root's, which knows only the
// run directory.
func ConfigFrom(run string) (*Config, error) {
	c := new(Config)
	return c, statefile.Read(filepath.Join(filepath.Dir(run), configFile), c)
}

// Stamp returns the stamp of the present configuration.
func (rec *Record) Stamp() statefile.Stamp { return statefile.StampOf(rec.ConfigFile()) }

// OpenConfig opens the configuration for a shim that has no access to it, and has to
// sync it. ErrNotFound: the sandbox does not exist. The caller closes the file.
func (rec *Record) OpenConfig() (*os.File, error) {
	// package os asks the poller first
	fd, err := unix.Open(rec.ConfigFile(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", rec.id)
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: %w", rec.id, err)
	}
	return os.NewFile(uintptr(fd), rec.ConfigFile()), nil
}

// SetStatus records how the sandbox ended. The shim calls it before it removes its
// socket.
func SetStatus(run string, s *Status) error {
	return statefile.Write(filepath.Join(run, "status.json"), s)
}

// State returns the sandbox's state, and why it is dead. The lock decides first: only a
// living shim holds it. A shim has its socket from when it is ready until it has written
// status.json; so a start writes no file. ErrNotFound: the sandbox does not exist.
func (rec *Record) State() (runtime.State, string, error) {
	held, err := rec.held(shimPart, 1)
	if err != nil {
		return "", "", err
	}
	return rec.state(held)
}

// StateLocked is State for a caller that holds the lock, so that the sandbox does not run.
func (rec *Record) StateLocked() (runtime.State, string, error) { return rec.state(false) }

func (rec *Record) state(held bool) (runtime.State, string, error) {
	if rec.HasSocket() {
		if held && PauseOf(rec.Run()).SinceMS > 0 {
			return runtime.StatePaused, "", nil
		}
		if held {
			return runtime.StateRunning, "", nil
		}
		return runtime.StateDead, killed, nil
	}
	var s Status
	err := statefile.Read(filepath.Join(rec.Run(), "status.json"), &s)
	switch {
	case errors.Is(err, fs.ErrNotExist) && rec.IsIncomplete(): // being removed
		return "", "", runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", rec.id)
	case errors.Is(err, fs.ErrNotExist):
		return runtime.StateCreated, "", nil
	case runtime.Exhausted(err):
		return "", "", runtime.Errorf(runtime.ErrUnavailable, "status of sandbox %s: %w", rec.id, err)
	case err != nil || s.State != runtime.StateStopped && s.State != runtime.StateDead:
		return runtime.StateDead, "status.json is damaged", nil
	}
	if s.Reason == Hibernates {
		return hibernated(rec.Run(), held)
	}
	return s.State, s.Reason, nil
}

// hibernated is State of a sandbox whose memory was kept as it ended. held says that a start may be
// restoring it.
func hibernated(run string, held bool) (runtime.State, string, error) {
	info, err := os.Lstat(filepath.Join(run, CowMemory, MemoryRecord))
	switch {
	case err != nil: // it was given up
		return runtime.StateStopped, "", nil
	case info.Size() == 0 && !held:
		return runtime.StateDead, "it was killed while it restored its memory, which is lost", nil
	}
	return runtime.StateHibernated, Hibernates, nil
}

// Hibernates is why a sandbox ended whose memory was kept for the next start.
const Hibernates = "it hibernates: its memory is kept, and the next start goes on"

const (
	socketComing = "sock.new"
	socket       = "sock"
)

const killed = "its shim was killed"

// PrepareRun prepares run/ for a shim, which calls it first. If a socket shows that the
// shim before was killed, it records that.
func PrepareRun(run string) error {
	_ = os.Remove(filepath.Join(run, socketComing))
	_ = unix.Unlink(filepath.Join(run, pauseFile))
	_ = unix.Unlink(PooledSocket(run)) // of a pooled sandbox that has ended
	if _, err := os.Lstat(filepath.Join(run, socket)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := SetStatus(run, &Status{State: runtime.StateDead, Reason: killed}); err != nil {
		return err
	}
	step.Reached("run: an older end recorded")
	return os.Remove(filepath.Join(run, socket))
}

// SocketComing returns the path at which a shim listens before it is ready.
func SocketComing(run string) string { return filepath.Join(run, socketComing) }

// Socket returns the path at which a shim that is ready listens.
func Socket(run string) string { return filepath.Join(run, socket) }

// HasSocket reports whether a shim was ready and has not ended by itself.
func (rec *Record) HasSocket() bool {
	var st unix.Stat_t
	return unix.Lstat(Socket(rec.Run()), &st) == nil
}

// RemoveSocket removes the socket of a shim that was killed, if any. The caller holds the
// sandbox's lock.
func (rec *Record) RemoveSocket() error { return removeIfExists(Socket(rec.Run())) }

// IsIncomplete reports whether the directory has no configuration: a process creates or removes
// the sandbox, or was killed while it did. A crash of the host leaves an empty configuration if it
// was not on the disk yet. An empty one counts as none, unless the sandbox has changes.
func (rec *Record) IsIncomplete() bool {
	info, err := os.Lstat(rec.ConfigFile())
	if err == nil {
		return info.Mode().IsRegular() && info.Size() == 0 && !rec.HasChanges()
	}
	return errors.Is(err, fs.ErrNotExist)
}
