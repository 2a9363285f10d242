package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/hostpath"
	"wolffia/runtime"
)

// A Dir is a git directory of the host on which git runs in an empty working tree: it opens no
// file of the codebase. It runs no hook, filter, pager, editor or monitor, and fetches nothing. It
// is safe for concurrent use.
type Dir struct {
	own, shared         *os.File // the directories: path and common are their names, whatever is at their paths by now
	name                string   // where own was found
	path, common, empty string
	safe                []string // options before the command
	config              []setting
	owner               *owner // nil: the caller
}

// An owner is the user whose git directory it is, if the caller is root: git then runs as that
// user.
type owner struct {
	uid, gid int
	home     string
}

type setting struct{ key, value string }

// apart are the options with which git keeps to the git directory.
var apart = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.splitIndex=false", "core.untrackedCache=keep",
	"core.attributesFile=/dev/null", "core.alternateRefsCommand=true", "core.logAllRefUpdates=true", "gc.auto=0", "maintenance.auto=false",
	"receive.autogc=false", "receive.fsckObjects=true", "transfer.fsckObjects=true", "receive.denyCurrentBranch=ignore",
	"receive.procReceiveRefs=", "submodule.recurse=false", "protocol.allow=never", "gpg.program=false", "log.showSignature=false",
}

// minor is the oldest version 2.x of git that [OpenDir] works with.
const minor = 22

// suitsLimit is how long git may take to tell its version.
const suitsLimit = 10 * time.Second

// Suits returns nil if the host has a git that OpenDir works with, and an error of class
// runtime.ErrUnavailable if not.
func Suits() error {
	have, err := version()
	if err == nil && have < minor {
		err = runtime.Errorf(runtime.ErrUnavailable, "the host has git 2.%d: install 2.%d or newer", have, minor)
	}
	return err
}

// monitored is the oldest version 2.x of git that is right with a file system monitor: an earlier
// one, in git diff of a commit and in git stash, takes files for deleted that the monitor does not
// name.
const monitored = 43

// Monitors reports whether the host's git is right with a file system monitor. The first call of a
// process may take the time of a program.
func Monitors() bool {
	have, err := version()
	return err == nil && have >= monitored
}

// version returns x of the version 2.x of the host's git, as of the first call; 0 is one before
// 2.0.
var version = sync.OnceValues(func() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), suitsLimit)
	defer cancel()
	cmd := git(ctx, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if cmd.Path == "" || errors.Is(err, exec.ErrNotFound) {
		return 0, errNoGit
	}
	var major, have int
	if err == nil {
		_, err = fmt.Sscanf(string(out), "git version %d.%d", &major, &have)
	}
	switch {
	case err != nil:
		return 0, runtime.Errorf(runtime.ErrUnavailable, "the host's git does not tell its version: %w", err)
	case major < 2:
		return 0, nil
	case major > 2:
		return math.MaxInt, nil
	}
	return have, nil
})

var errNoGit = runtime.Errorf(runtime.ErrUnavailable,
	"git is not in PATH: install it, such as with apt-get install git")

// OpenDir returns the git directory at path, which is absolute and has no symbolic links. A
// sandbox may move and replace directories above it: so OpenDir opens it once, and git works on
// the opened directory. In that of a linked working tree the file commondir names the
// repository's. empty is an empty directory, or made. Root works as the owner of the directory.
// The caller closes it. The error is of class runtime.ErrInvalid if path is not a git directory of
// the caller's own, and of class runtime.ErrUnavailable if the host has no git.
func OpenDir(ctx context.Context, path, empty string) (_ *Dir, err error) {
	if _, err := hostpath.Look("git"); err != nil {
		return nil, errNoGit
	}
	d := &Dir{name: path, empty: empty}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.own, err = beneath.OpenPlain(path, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "git directory: %w", err)
	}
	d.shared, d.path = d.own, fdPath(d.own)
	if b, err := os.ReadFile(filepath.Join(d.path, "commondir")); err == nil {
		common := strings.TrimSuffix(string(b), "\n")
		if !filepath.IsAbs(common) {
			common = d.path + "/" + common // which the kernel follows from the open directory
		}
		if d.shared, err = os.OpenFile(common, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "git directory of the repository of %s: %w", path, err)
		}
	}
	d.common = fdPath(d.shared)
	// git receive-pack asks for the owner, also of a directory that is named (CVE-2024-32004).
	st, err := os.Stat(d.common)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "git directory %s: %w", d.name, err)
	}
	own, is := st.Sys().(*syscall.Stat_t)
	switch {
	case is && int(own.Uid) == os.Geteuid():
		err = os.MkdirAll(empty, 0o700)
	case is && os.Geteuid() == 0:
		d.owner = &owner{uid: int(own.Uid), gid: int(own.Gid), home: "/nonexistent"}
		if u, err := user.LookupId(strconv.Itoa(d.owner.uid)); err == nil {
			d.owner.home = u.HomeDir
		}
		if d.empty, err = os.MkdirTemp("", "wolffia-empty-"); err == nil {
			err = os.Chmod(d.empty, 0o755)
		}
	default:
		err = runtime.Errorf(runtime.ErrInvalid, "the git directory %s belongs to another user: take it with chown", d.name)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range append(slices.Clone(apart), "safe.directory=*") {
		d.safe = append(d.safe, "-c", s)
	}
	// The status 1 is that of no match.
	list, _, err := d.Run(ctx, Command{Args: []string{"config", "--null", "--get-regexp", `^(filter|hook|remote|extensions|core)\.`}, Status: 1})
	if err != nil {
		return nil, err
	}
	d.safe = append(d.safe, off(string(list))...)
	for entry := range strings.SplitSeq(string(list), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		d.config = append(d.config, setting{key, value})
	}
	// References are written to the disk by SyncRefs, while no lock of git is held.
	d.safe = append(d.safe, "-c", "core.fsync="+strings.TrimPrefix(d.Config("core.fsync")+",-reference", ","))
	return d, nil
}

// Close closes the descriptors of OpenDir, and removes the files that it has made. No command may
// run any more.
func (d *Dir) Close() (err error) {
	if d.owner != nil {
		err = os.Remove(d.empty)
	}
	for _, f := range []*os.File{d.own, d.shared} {
		_ = f.Close() // nil, or twice, is fine
	}
	return err
}

// fdPath returns a path of an open directory, for this process and until a child executes its
// program.
func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// Own gives a file that the caller has made in the git directory to its owner.
func (d *Dir) Own(f *os.File) error {
	if d.owner == nil {
		return nil
	}
	return f.Chown(d.owner.uid, d.owner.gid)
}

// Foreign reports whether git runs as another user than the caller: it may not open the caller's
// own files.
func (d *Dir) Foreign() bool { return d.owner != nil }

// Name returns the path at which the git directory was opened, for messages.
func (d *Dir) Name() string { return d.name }

// Path returns the git directory, with HEAD and index.
func (d *Dir) Path() string { return d.path }

// Common returns the directory of the repository, with refs and objects.
func (d *Dir) Common() string { return d.common }

// Files returns the directories of Path and Common, which Close closes.
func (d *Dir) Files() (own, common *os.File) { return d.own, d.shared }

// Config returns the last value of a setting of filter, hook, remote, extensions or core. The key
// is in lower case but for its middle. "" is a setting that does not exist.
func (d *Dir) Config(key string) (value string) {
	for _, s := range d.config {
		if s.key == key {
			value = s.value
		}
	}
	return value
}

// Remotes returns the names of the remotes that have an address.
func (d *Dir) Remotes() map[string]bool {
	names := make(map[string]bool)
	for _, s := range d.config {
		if name, is := strings.CutPrefix(s.key, "remote."); is && strings.HasSuffix(name, ".url") {
			names[strings.TrimSuffix(name, ".url")] = true
		}
	}
	return names
}

// maxSynced is how many files SyncRefs writes to the disk one by one.
const maxSynced = 20

// SyncRefs writes references that were moved, HEAD and packed-refs to the disk (fsync(2)): git
// with this Dir does not.
func (d *Dir) SyncRefs(moved []string) error {
	if len(moved) > maxSynced {
		f, err := os.Open(d.common)
		if err != nil {
			return err
		}
		return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
	}
	for _, name := range moved {
		f, err := os.OpenFile(filepath.Join(d.common, name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EISDIR) {
			continue // it was packed, or removed
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// A Command is one run of git.
type Command struct {
	Args   []string
	In     io.Reader // nil: empty
	Env    []string  // more environment
	Common bool      // in the common directory, which is "." then; else in the git directory itself
	Status int       // that is an answer as well as 0, such as 1 of git config
}

// Run runs a command and returns its output, and its status. An error has the end of git's
// messages.
func (d *Dir) Run(ctx context.Context, c Command) (out []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := d.command(ctx, c)
	var printed bytes.Buffer
	said := newSaid()
	cmd.Stdout, cmd.Stderr = &printed, said
	err = cmd.Run()
	if failed, is := errors.AsType[*exec.ExitError](err); is && c.Status != 0 && failed.ExitCode() == c.Status {
		return printed.Bytes(), c.Status, nil
	}
	if err != nil {
		return nil, -1, fmt.Errorf("git %s in %s: %s: %w", c.Args[0], d.name, said.text(), err)
	}
	return printed.Bytes(), 0, nil
}

// command returns the command, which has no output yet.
func (d *Dir) command(ctx context.Context, c Command) *exec.Cmd {
	cmd := git(ctx, append(slices.Clone(d.safe), c.Args...)...)
	if cmd.Dir = d.path; c.Common {
		cmd.Dir = d.common
	}
	cmd.Env = append(environ(os.Environ()), "GIT_DIR=.", "GIT_WORK_TREE="+d.empty, "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_ATTR_NOSYSTEM=1")
	cmd.Env = append(cmd.Env, c.Env...)
	cmd.Stdin, cmd.WaitDelay = c.In, time.Second
	if d.owner != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(d.owner.uid), Gid: uint32(d.owner.gid)}}
		cmd.Env = append(cmd.Env, "HOME="+d.owner.home, "XDG_CONFIG_HOME=")
	}
	return cmd
}

// A said is the beginning and the end of git's messages.
type said struct{ *excerpt.Excerpt }

func newSaid() said { return said{excerpt.New(2000, 1000)} }

// text returns it on one line, without characters that act on a terminal.
func (s said) text() string {
	kept, _ := s.Result()
	return tail(Printable(string(kept)))
}

// Printable returns s with ? in the place of each character that a terminal could act on, but for
// newlines.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
