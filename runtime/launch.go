package runtime

import (
	"io"
	"os"
)

// GuestPath is where PID 1's program is inside every sandbox. Programs inside
// may run it too: it packs and unpacks files for cp.
const GuestPath = "/run/wolffia/guest"

// SessionsPath is an empty directory of PID 1's own in every sandbox, a tmpfs
// with mode 0700: what its shell sessions need does not depend on room in /tmp.
// The name is short since a shell is sent it with every command.
const SessionsPath = "/run/wolffia/s"

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
	Launch(spec *LaunchSpec) (*Instance, error)
}

// A LaunchSpec is all that a backend needs to know. Paths on the host are seen
// from the shim's own mount namespace.
type LaunchSpec struct {
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
	RootDir  string
	Root     []RootEntry
	Etc      string  // host directory that becomes /etc, or empty: the root's own
	Binds    []Mount // the codebase, other directories, single files; in order
	Scratch  []string
	Guest    string // host path of the guest binary
	Network  Network
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
	Config    *SandboxConfig
	CreatedAt int64 // ms since 1970
	// Kept is set where another process has started PID 1 already.
	Kept *Kept
}

// A Kept sandbox is one that an engine runs, such as Docker: a process beside
// the shim, the keeper, has started it, and has connected us to it.
type Kept struct {
	Stream *os.File     // the connection, in the engine's own form; the launcher closes it
	Wait   func() error // returns when the keeper is gone: why, if not as expected
	Kill   func() error // asks the keeper to end the sandbox
	// Hail is set where another shim had the connection, and was killed: it is to
	// be sent first. What comes is the other one's, and to be dropped, up to Echo,
	// with which PID 1 answers; then it says nothing before it is asked.
	Hail, Echo []byte
}

// Command is what PID 1 is executed as. The id comes last: what is left of a
// sandbox is found by that. If filter is not empty, PID 1 installs the seccomp
// filter in that file inside by itself.
func (s *LaunchSpec) Command(filter string) []string {
	if filter != "" {
		return []string{GuestPath, "--seccomp", filter, SessionsPath, s.ID}
	}
	return []string{GuestPath, SessionsPath, s.ID}
}

// A RootEntry is one name in the sandbox's root directory.
type RootEntry struct {
	Name string // without a slash
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
	// Wait returns when everything of the sandbox is gone. It is called once.
	Wait func() error
	// Kill ends everything at once; it may be called at any time.
	Kill func() error
}
