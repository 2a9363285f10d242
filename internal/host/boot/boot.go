// Package boot is what the processes of a sandbox on the host say to each other at a start.
// It has the parameters and descriptors that each is started with, their reports to the
// caller, and the messages between them.
package boot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/coredump"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// The numbers of the descriptors that a process of the sandbox starts with. Those up to FDReady
// are the keeper's too; the tree server has the first three.
const (
	FDBoot    = 3  // a memory file, to its end: Params as JSON; for the tree server TreeParams and the rules
	FDLock    = 4  // this process's byte of the sandbox's lock; held to the end
	FDControl = 5  // a socket pair with the tree server: the mount's descriptor, then requests
	FDReady   = 6  // a pipe to the caller: one line of JSON for each step, then ready or the error
	FDAlive   = 7  // a pipe from the caller, which hangs up when it ends; used if BoundToCaller
	FDGuest   = 8  // PID 1's program, if CopyGuest
	FDConfig  = 9  // config.json, to sync it once the sandbox is ready
	FDBackend = 10 // the backend's program, if HasBackend
	FDImage   = 11 // a socket that the image's idmapped mount comes from, if SendsImage
	FDKept    = 12 // a socket pair with the keeper: the connection to PID 1; a hang-up is the end
	FDBarrier = 13 // a pipe that holds the backend's program until its control group exists, if Held
	FDClient  = 14 // the caller's connection, on which it has asked for one to PID 1; not in a pooled sandbox
	FDSystem  = 15 // a socket pair with the server of /usr, if Config.OverHost
	FDMemory  = 16 // the first of launch.MemoryFiles, which have numbers in that order, if HasMemory
)

// FDKeeper is the keeper's socket pair with the shim.
const FDKeeper = 7

// Params are what shim and keeper are started with.
type Params struct {
	ID string `json:"id"`
	// statedir.Processes.Tag; empty: no process of the sandbox is started
	Tag    string          `json:"tag,omitempty"`
	Run    string          `json:"run"` // statedir.Record.Run
	Mnt    string          `json:"mnt"`
	Config statedir.Config `json:"config"`
	// host path of the guest binary; empty with CopyGuest if it has none
	Guest string `json:"guest"`
	// CopyGuest says that the guest binary is FDGuest: it is in memory only, or its path
	// may be out of reach once privileges are dropped.
	CopyGuest bool `json:"copyGuest,omitempty"`
	// Image are the directories of the image's tree, as store.Store.Lowers returns them;
	// empty if there is no image. With SendsImage a mount of each comes through FDImage, in
	// this order.
	Image      []string `json:"image,omitempty"`
	SendsImage bool     `json:"sendsImage,omitempty"`
	// InDoubt says that processes of an earlier start may still have the sandbox's changes
	// to Image mounted.
	InDoubt bool `json:"inDoubt,omitempty"`
	// HasBackend says that FDBackend is the backend's program.
	HasBackend bool `json:"hasBackend,omitempty"`
	// Can is Backend.Can.
	Can launch.Capabilities `json:"can,omitempty"`
	// Lifetime is what the shim enforces; nil: no limit, until it is renewed.
	Lifetime *statedir.Lifetime `json:"lifetime,omitempty"`
	// HasMemory says that the sandbox is restored, from what is open from FDMemory on.
	HasMemory bool `json:"hasMemory,omitempty"`
	// Held says that the backend's program waits at FDBarrier until it has its limits.
	Held bool `json:"held,omitempty"`
	// Rlimits are the limits that PID 1 sets.
	Rlimits launch.Rlimits `json:"rlimits,omitzero"`
	// KeeperDir is statedir.Record.Engine if a keeper has PID 1 started, else empty. The keeper
	// then mounts the tree in the host's mount namespace.
	KeeperDir string `json:"keeperDir,omitempty"`
	StateDir  string `json:"stateDir,omitempty"`
	// Elsewhere says that the keeper starts PID 1 on another machine: no tree is mounted, and the shim
	// sends a copy of the codebase.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Volumes is the directory with the sandbox's volumes, without symbolic links in the path;
	// empty if it has none.
	Volumes string `json:"volumes,omitempty"`
	// CopyHooks has the sandbox have a copy of rootfs.MadeHooks, which its rules let it read only.
	CopyHooks bool `json:"copyHooks,omitempty"`
	// Pooled says that the sandbox has no user yet; nil: it has.
	Pooled *Pooled `json:"pooled,omitempty"`
	// Lost says that the record of whether the sandbox is in the engine was deleted.
	Lost bool `json:"lost,omitempty"`
}

// Deadline returns when Lifetime ends; the zero Time: never.
func (p *Params) Deadline() time.Time {
	if p.Lifetime == nil {
		return time.Time{}
	}
	return p.Lifetime.Deadline(statedir.Now())
}

// TreeParams are what a tree server is started with: no more of the sandbox's configuration than
// it uses. So it does not get the environment, which may have secrets. And it starts sooner: for
// Params encoding/json would make tables of all types in them, which takes a third of a
// millisecond.
type TreeParams struct {
	Run string `json:"run"` // statedir.Record.Run
	// Rules are the sandbox's, in the form of SealedFile. With Blank they are what its user
	// probably asks for, to compile them ahead; they are for it only.
	Rules      []byte `json:"-"`                  // after the line of JSON
	Codebase   string `json:"codebase,omitempty"` // its path on the host; of no use with Blank
	MountPoint string `json:"mountPoint"`         // where the sandbox sees it
	// UID and GID are those of statedir.Config. HostIDs says that the mount shows them: it is in
	// the host's user namespace.
	UID      int     `json:"uid"`
	GID      int     `json:"gid"`
	HostIDs  bool    `json:"hostIDs,omitempty"`
	RootTree bool    `json:"rootTree,omitempty"` // as in statedir.Config
	Root     bool    `json:"root,omitempty"`     // fusefs.Options.Chown
	Copied   bool    `json:"copied,omitempty"`   // the codebase is copied on write
	Memory   int64   `json:"memory,omitempty"`   // the sandbox's limit, in bytes; 0: none
	Disk     int64   `json:"disk,omitempty"`     // the same
	Git      TreeGit `json:"git,omitzero"`       // of no use with Blank
	// Ask are the kinds of accesses that wait for an answer, AskLimit is how long.
	Ask      []string      `json:"ask,omitempty"`
	AskLimit time.Duration `json:"askLimitNs,omitempty"`
	// Pooled says that the sandbox has no user yet: one comes with AskActivate. With Blank, so
	// does the codebase.
	Pooled bool `json:"pooled,omitempty"`
	Blank  bool `json:"blank,omitempty"`
	// Review says that no mount is served: the tree server only answers requests until its control
	// socket hangs up.
	Review bool `json:"review,omitempty"`
	// System says that Codebase is a part of the host's system, shown as it is: its modes too, and
	// without a log of denials.
	System bool `json:"system,omitempty"`
}

// A TreeGit says how a tree server treats git directories. The zero value serves them by the
// rules.
type TreeGit struct {
	Private     bool `json:"private,omitempty"`     // they are the sandbox's own: see fusefs.Git
	Credentials bool `json:"credentials,omitempty"` // copies of the host's have its credentials
	Unguarded   bool `json:"unguarded,omitempty"`   // fusefs.Options.Unguarded
	// git inside has a file system monitor: see fusefs.AskName
	Monitor bool `json:"monitor,omitempty"`
	Minimal bool `json:"minimal,omitempty"` // fusefs.Git.Minimal
	// Ignore has the patterns that git inside ignores in all repositories, with Monitor.
	Ignore string `json:"ignore,omitempty"`
}

// TreeGitOf returns the TreeGit of a sandbox. A copied codebase has its own git directories
// whatever the rules say of the host's.
func TreeGitOf(c *statedir.Config) TreeGit {
	private := c.PrivateGit || c.CopyOnWrite && c.GitDirs != runtime.GitReadOnly
	g := TreeGit{Private: private, Credentials: c.GitCredentials, Unguarded: c.GitDirs == runtime.GitInPlace}
	if c.PrivateGit && c.Git != nil && strings.HasPrefix(c.Git.Config, launch.GitMonitor) {
		g.Monitor, g.Minimal, g.Ignore = true, strings.Contains(c.Git.Config, launch.GitMinimal), ignored(c.Git)
	}
	return g
}

// maxIgnore limits TreeGit.Ignore: with more, git inside finds untracked names by itself at first.
const maxIgnore = 32 << 10

// ignored returns the content of the file that is core.excludesFile inside; empty if that cannot
// be told.
func ignored(g *runtime.GitConfig) (text string) {
	if text = g.Ignore; text == "" {
		lines := strings.ToLower(g.Config)
		_, file, _ := strings.Cut(lines[max(strings.LastIndex(lines, "excludesfile"), 0):], launch.GitPath+"/")
		text = g.Files[file[:len(file)-len(strings.TrimLeft(file, "0123456789"))]]
	}
	if len(text) > maxIgnore {
		return ""
	}
	return text
}

// Subject returns what an engine's program works on: the tag or the id of a sandbox, or a state
// directory.
func (b *Params) Subject() string { return cmp.Or(b.Tag, b.ID, b.StateDir) }

// Read reads Params from FDBoot.
func Read() (*Params, error) {
	b := new(Params)
	_, err := read(b)
	return b, err
}

// File returns b as a file to pass as FDBoot.
func (b *Params) File() (*os.File, error) { return file(b, nil) }

// ReadTree reads TreeParams from FDBoot.
func ReadTree() (*TreeParams, error) {
	b := new(TreeParams)
	var err error
	b.Rules, err = read(b)
	return b, err
}

// File returns b as a file to pass as FDBoot.
func (b *TreeParams) File() (*os.File, error) { return file(b, b.Rules) }

// file returns a file with params as a line of JSON, and rest.
func file(params any, rest []byte) (*os.File, error) {
	line, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return memory("boot", slices.Concat(line, []byte{'\n'}, rest), 0)
}

// read reads a file of that kind from FDBoot.
func read(params any) (rest []byte, err error) {
	f := os.NewFile(FDBoot, "boot")
	if f == nil {
		return nil, errors.New("this is started by wolffia, not by hand")
	}
	defer f.Close()
	text, err := readAll(f)
	if err == nil {
		text, rest, _ = bytes.Cut(text, []byte{'\n'})
		err = json.Unmarshal(text, params)
	}
	if err != nil {
		return nil, fmt.Errorf("this is started by wolffia, not by hand: %w", err)
	}
	return rest, nil
}

// Init is the first call of each of these processes. It makes inherited descriptors
// close-on-exec, turns core dumps off, since memory holds what came from a sandbox, and
// sets the process's name, which execution by descriptor does not.
func Init(name string) error {
	comm, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(comm)), 0, 0, 0)
	if err := unix.CloseRange(3, 0xffffffff>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return coredump.Off()
}

// A Failure is an error on its way between processes. The zero Failure means success.
type Failure struct {
	Error string `json:"error,omitempty"`
	Class string `json:"class,omitempty"` // of Error
}

// Failed returns err, which may be nil, as a Failure.
func Failed(err error) Failure {
	if err == nil {
		return Failure{}
	}
	f := Failure{Error: cmp.Or(err.Error(), "failed")}
	if class := runtime.Class(err); class != nil {
		f.Class = class.Error()
	}
	return f
}

// Err returns the error, or nil. One of no known class is of class ErrUnavailable.
func (f Failure) Err() error {
	if f.Error == "" {
		return nil
	}
	for _, class := range runtime.Classes() {
		if class.Error() == f.Class {
			return runtime.WithClass(class, errors.New(f.Error))
		}
	}
	return runtime.WithClass(runtime.ErrUnavailable, errors.New(f.Error))
}

// A Report is one line of progress on FDReady. The last one is Ready or has a Failure.
type Report struct {
	Failure
	Step  string `json:"step,omitempty"` // what is being done now
	Ready bool   `json:"ready,omitempty"`
	// Version is that of the shim's program, with Ready.
	Version string `json:"version,omitempty"`
	// the process that waits at the start barrier for its limits
	Held  int        `json:"held,omitempty"`
	Image *ImageInfo `json:"image,omitempty"` // answers "image"
	Found []Found    `json:"found,omitempty"` // answers "scan"
}

// Send writes a report. A reader that has hung up is not an error.
func (r Report) Send(w io.Writer) {
	_ = json.NewEncoder(w).Encode(r)
}
