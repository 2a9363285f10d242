// Package launch is the contract of a backend: how it starts PID 1 of a sandbox in
// isolation. Users of sandboxes need package runtime only.
package launch

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"wolffia/runtime"
)

// GuestPath is where PID 1's program is inside every sandbox. Programs inside
// may run it too: it packs and unpacks files for cp.
const GuestPath = "/run/wolffia/guest"

// SessionsPath is an empty directory of PID 1's own in every sandbox, a tmpfs
// with mode 0700: what its shell sessions need does not depend on room in /tmp.
// The name is short since a shell is sent it with every command.
const SessionsPath = "/run/.w"

// FilterPath is where the guest finds its seccomp filter, in a sandbox whose
// backend has it install that by itself.
const FilterPath = "/run/wolffia/seccomp"

// SessionsSize bounds what lies in [SessionsPath], in bytes: commands and the
// state of shells.
const SessionsSize = 256 << 20

// A Launcher is what a backend is to the shim: it starts PID 1 of a sandbox in
// isolation and hands back its stream. All the rest, processes, terminals and
// files, is done through the stream and is the same for every backend.
type Launcher interface {
	// Name is the runtime's name.
	Name() string
	// Launch starts spec.Guest as PID 1. It is called from a thread that lives
	// as long as the shim does, so that children may be bound to its death. If
	// it fails, nothing is left.
	Launch(spec *Spec) (*Instance, error)
}

// A Spec is all that a backend needs to know. Paths on the host are seen
// from the shim's own mount namespace.
type Spec struct {
	ID       string
	Hostname string
	UID, GID int    // the identity inside
	User     string // the user's name inside
	Home     string // its home directory: an empty temporary one
	// RootDir is a host directory that is the root directory as a whole, to be
	// written to; then Root and Etc are empty. In it there is a directory, or a
	// file, for each place that something is mounted on: /proc, /dev, /sys, /tmp,
	// Home, SessionsPath, GuestPath, FilterPath, and those of Binds and Scratch, with
	// no symbolic link on the way that could lead a mount elsewhere. Nobody else
	// writes to it before PID 1.
	RootDir string
	Root    []RootEntry
	Etc     string // host directory that becomes /etc, or empty: the root's own
	// Covers are mounted read-only over parts of /proc, in order, where that is the
	// host kernel's and the backend does not cover it by itself.
	Covers   []runtime.Mount
	Binds    []runtime.Mount // the codebase, other directories, single files; in order
	Scratch  []string
	Guest    string // host path of the guest binary
	Network  runtime.Network
	Seccomp  []byte // array of struct sock_filter
	Platform string // SandboxConfig.Platform
	// Dir is an empty directory on the host, in memory, for what the backend
	// needs to put down; it is gone with the shim.
	Dir string
	// Program is the backend's own program on the host, as a path that can be
	// opened though the program's place may be out of reach; empty if the
	// backend looks for it by itself.
	Program string
	// Config is what was asked for, for a backend with an engine, which keeps
	// more of it than this.
	Config    *runtime.SandboxConfig
	CreatedAt int64 // ms since 1970
	// Attached is set where another process has started PID 1 already.
	Attached *Attached
	// Gate holds what the backend starts, if it is not nil: nothing of it runs
	// before a byte can be read there, and it ends if there will be none. The
	// launcher leaves it open.
	Gate *os.File
	// Rlimits are limits that PID 1 puts on what it starts.
	Rlimits Rlimits
}

// Rlimits are limits that the kernel which runs the processes keeps for each or
// for all of a user, without control groups (getrlimit(2)). 0 is no limit.
type Rlimits struct {
	// PIDs is how many processes and threads there may be beside PID 1's own:
	// RLIMIT_NPROC, which is counted for each user namespace.
	PIDs int64 `json:"pids,omitempty"`
	// Data is how much private memory that it can write to each process may
	// have, in bytes: RLIMIT_DATA.
	Data int64 `json:"data,omitempty"`
}

// InitThreads is room for PID 1's threads, for one that the Go runtime may make of
// its own accord, and for one process of the backend, where a limit of processes
// counts them.
const InitThreads = 40

// A Sizes says how large the directories in memory may get, in bytes; 0 is no
// limit.
type Sizes struct {
	Tmp, Home, Scratch, Sessions, Shm, Dev int64
}

// Sizes are those of the sandbox. What is in these directories counts as its
// memory, and no process can be ended to make room: so with a limit of memory
// they are a part of it, and not all.
func (s *Spec) Sizes() Sizes {
	sizes := Sizes{Sessions: SessionsSize}
	if s.Config == nil || s.Config.Resources.Memory <= 0 {
		return sizes
	}
	limit := s.Config.Resources.Memory
	return Sizes{
		Tmp: limit / 4, Home: limit / 8, Scratch: limit / 8,
		Sessions: min(SessionsSize, limit/16), Shm: min(shmSize, limit/16), Dev: min(devSize, limit/16),
	}
}

const (
	shmSize = 64 << 20
	devSize = 1 << 20 // it holds names only
)

// A Attached sandbox is one that an engine runs, such as Docker: a process beside
// the shim, the keeper, has started it, and has connected us to it.
type Attached struct {
	Stream *os.File     // the connection, in the engine's own form; the launcher closes it
	Wait   func() error // returns when the keeper is gone: why, if not as expected
	Kill   func() error // asks the keeper to end the sandbox
}

// Command is what PID 1 is executed as. The id comes last: what is left of a
// sandbox is found by that. If filter is not empty, PID 1 installs the seccomp
// filter in that file inside by itself.
func (s *Spec) Command(filter string) []string {
	command := []string{GuestPath}
	if filter != "" {
		command = append(command, "--seccomp", filter)
	}
	if s.Config != nil && s.Config.Resources.PIDs > 0 {
		// PID 1 makes its threads as long as there is room for them.
		command = append(command, "--threads", strconv.Itoa(InitThreads-2))
	}
	if s.Rlimits != (Rlimits{}) {
		command = append(command, "--rlimits", fmt.Sprintf("%d,%d", s.Rlimits.PIDs, s.Rlimits.Data))
	}
	return append(command, SessionsPath, s.ID)
}

// A RootEntry is one name in the sandbox's root directory.
type RootEntry struct {
	Name string // a path below the root directory, without a slash at its ends
	// Link is the target of a symbolic link; otherwise Source is a directory
	// or file on the host, shown read-only.
	Link, Source string
}

// An Instance is a launched sandbox.
type Instance struct {
	// Stream is PID 1's standard input and output. Closing it ends PID 1.
	Stream io.ReadWriteCloser
	// Stderr is what PID 1 and the backend complain about, to its end.
	Stderr io.Reader
	// PID is the process on the host, a child of the shim's, that all others of
	// the sandbox descend from; 0 if there is none.
	PID int
	// Wait returns when everything of the sandbox is gone. It is called once.
	Wait func() error
	// Kill ends everything at once; it may be called at any time.
	Kill func() error
}
