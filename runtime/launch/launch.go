// Package launch is the contract of a backend with the shim: how PID 1 of a
// sandbox is started in isolation. Users of sandboxes need package runtime only.
package launch

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"wolffia/runtime"
)

// A Launcher starts PID 1 of a sandbox in isolation and returns its stream.
// Processes, terminals and files go through the stream, the same for every backend.
type Launcher interface {
	// Name returns the runtime's name.
	Name() string
	// Launch starts spec.Guest as PID 1. The caller's thread lives as long as the
	// shim, so children may be bound to its death. After an error, no process is left.
	Launch(spec *Spec) (*Instance, error)
}

// Where the network of a sandbox with runtime.NetworkFiltered has its services, inside: all of
// 127.0.0.0/8 is local in every backend, and programs of the sandbox seldom use this part.
const (
	NameServer = "127.64.0.1"      // of DNS, at port 53
	HTTPProxy  = "127.64.0.1:3128" // CONNECT, and absolute URIs
)

// A Spec is what a backend needs to start a sandbox. Paths on the host are as seen
// from the shim's mount namespace.
type Spec struct {
	ID       string
	Tag      string // last argument of its processes: see statedir.Processes
	Hostname string
	UID, GID int // the identity inside
	// Home is the user's home directory inside: an empty temporary one. Empty: it is the root
	// directory's own.
	Home string
	// RootInside says that programs inside are root, with RootCapabilities: UID and GID are 0, and this
	// process's user namespace has the ids of userns.IDs.
	RootInside bool
	// RootDir is a host directory that becomes the writable root directory. Then Root
	// and Etc are empty, and it has a directory or a file for the target of each of
	// Mounts, without a symbolic link on the way. No other process writes to it before
	// PID 1 does.
	RootDir string
	// Root are the entries of a read-only root directory: of kind Bind and Symlink.
	Root []Mount
	// Etc is a host directory that becomes /etc; empty: the root's own.
	Etc string
	// Identity are the names of the files in Etc that name the user and the host, for
	// an engine that mounts files of its own over these.
	Identity []string
	// HostEtc are the names of the directories in /etc that are the host's.
	HostEtc []string
	// HostVar are the paths of the host's directories that are mounted in one of Root, /var.
	HostVar []string
	Covers  []runtime.Mount // mounted read-only over parts of the host kernel's /proc
	// the codebase, other directories, single files; parents are mounted first
	Binds   []runtime.Mount
	Scratch []string // directories in memory
	Git     string   // host directory that becomes GitPath; empty: there is none inside
	Hand    string   // host directory that becomes HandPath; empty: there is none inside
	Guest   string   // host path of the guest binary
	Network runtime.Network
	Seccomp []byte // array of struct sock_filter
	// Platform is SandboxConfig.Platform.
	Platform string
	// Dir is an empty directory on the host, in memory, for the backend's files. It is
	// gone with the shim.
	Dir string
	// Program is the path of the backend's program on the host; empty if the backend
	// looks for it by itself.
	Program   string
	Config    *runtime.SandboxConfig
	CreatedAt int64 // ms since 1970
	// Deadline is when the time to live ends, for an engine elsewhere; zero: never.
	Deadline time.Time
	// Attached is set if PID 1 runs in an engine already.
	Attached *Attached
	// Barrier is a start barrier: the program that the launcher starts must not run
	// before a byte can be read from it, and must end at its end of file. The launcher
	// closes it. nil: no barrier.
	Barrier *os.File
	// Clients is a socket that PID 1 gets as descriptor ClientsFD: by it the shim passes
	// connections of clients. The caller closes it. nil: they stay with the shim.
	Clients *os.File
	// Rlimits are limits that PID 1 puts on what it starts.
	Rlimits Rlimits
	// OpenFiles is the highest hard limit of open files inside, which PID 1 puts on itself; 0: the
	// backend has seen to it.
	OpenFiles uint64
	// Processors is how many processors PID 1 uses at once; 0: as many as there are.
	Processors int
	// Memory are MemoryFiles, open, of the sandbox that is restored: PID 1 and all others run on,
	// and PID 1 waits for wire.Restored. The caller closes them. nil: PID 1 starts.
	Memory []*os.File
}

// MemoryFiles are the names of the files of a kept memory: the record of what it was kept with, and
// what the backend writes (here as runsc's own commands name it). An empty record says that the
// memory was restored, or never complete.
var MemoryFiles = []string{"config.json", "checkpoint.img", "pages_meta.img", "pages.img"}

// Rlimits are limits without control groups, of the kernel that runs the processes
// (getrlimit(2)). 0 is no limit.
type Rlimits struct {
	// PIDs is the number of processes and threads beside PID 1's own: RLIMIT_NPROC,
	// which is counted for each user namespace.
	PIDs int64 `json:"pids,omitempty"`
	// Data is the private writable memory of each process, in bytes: RLIMIT_DATA.
	Data int64 `json:"data,omitempty"`
}

const (
	// filesKept is by how many descriptors the limit of a program inside is lower than that of
	// wolffia's own processes, but at most half of that. It is more than one message can have
	// (SCM_MAX_FD in the kernel's include/net/scm.h).
	filesKept = 4096
	// fewFiles is a limit that is not lowered: PID 1 needs what is left.
	fewFiles = 1024
)

// OpenFiles returns the hard limit of open files (RLIMIT_NOFILE in getrlimit(2)) for inside a
// sandbox of a caller with the given one.
//
// The limit is also one of all descriptors that the processes of a user have sent by unix sockets,
// and that were not received, in all namespaces together: who has as low a limit as that number
// cannot send any (ETOOMANYREFS in unix(7); too_many_unix_fds in net/unix/af_unix.c). So programs
// inside, which may have sent as many as they like, must have a lower limit than what starts and
// reaches the user's other sandboxes.
func OpenFiles(caller uint64) uint64 {
	if caller < fewFiles {
		return caller
	}
	return caller - min(filesKept, caller/2)
}

// InitThreads is what PID 1 and the backend add to a limit of processes that counts them too: PID
// 1's threads, two more that the Go runtime may create (one of them while PID 1 makes its own),
// and one process of the backend.
const InitThreads = 41

// ClientsFD is PID 1's descriptor of Spec.Clients.
const ClientsFD = 4

// An Attached is the connection to a sandbox whose PID 1 the keeper has started in a
// container engine (see package keeper).
type Attached struct {
	Stream *os.File     // to PID 1, in the engine's framing; the launcher closes it
	Wait   func() error // waits for the keeper's end, and returns its error
	Kill   func() error // asks the keeper to end the sandbox
	// Pause and Resume are as in Instance, by the engine.
	Pause, Resume func() error
	// Renew tells the keeper another Spec.Deadline.
	Renew func(deadline time.Time) error
	// Again gets connections to the same PID 1, each in place of the one before, which broke; the
	// launcher closes them. It is closed when there will be none.
	Again <-chan *os.File
}

// Command returns PID 1's arguments. The tag comes last: the processes of a sandbox are
// found by it. filter is the file inside with the seccomp filter that PID 1 installs;
// empty if the backend does. more are options that only this backend has.
func (s *Spec) Command(filter string, more ...string) []string {
	command := []string{GuestPath}
	if filter != "" {
		command = append(command, "--seccomp", filter)
	}
	if s.limited() {
		// PID 1 creates its threads while the limit still has room for them.
		command = append(command, "--threads", strconv.Itoa(InitThreads-3))
	}
	if s.Clients != nil {
		command = append(command, "--clients", strconv.Itoa(ClientsFD))
	}
	if s.Rlimits != (Rlimits{}) {
		command = append(command, "--rlimits", fmt.Sprintf("%d,%d", s.Rlimits.PIDs, s.Rlimits.Data))
	}
	if s.RootInside {
		command = append(command, "--root", strconv.FormatUint(capabilityMask(), 10))
	}
	if s.OpenFiles > 0 {
		command = append(command, "--files", strconv.FormatUint(s.OpenFiles, 10))
	}
	for _, name := range s.codebaseNames() {
		if s.madeInside(name) {
			command = append(command, "--codebase", s.Config.MountPointOrDefault(), "--link", name)
		}
	}
	return append(append(command, more...), SessionsPath, s.Tag)
}

// limitedProcessors is how many processors PID 1 uses where processes are limited. With eight,
// Go's runtime makes up to six threads more than PID 1 has asked for (InitThreads), as it happens;
// with two, one.
const limitedProcessors = 2

// Env returns PID 1's environment. PID 1 passes none of it on.
func (s *Spec) Env() []string {
	n := s.Processors
	if s.limited() && (n == 0 || n > limitedProcessors) {
		n = limitedProcessors
	}
	if n == 0 {
		return []string{}
	}
	return []string{"GOMAXPROCS=" + strconv.Itoa(n)}
}

// steering are the variables by which an image could steer Go's runtime and the loader in PID 1,
// to which an engine gives those of the image that the container does not set.
var steering = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD"}

// EnvOverImage is Env in an engine's container, which has the image's variables too. An empty
// variable is as none for Go's runtime.
func (s *Spec) EnvOverImage() []string {
	all := s.Env()
	for _, name := range steering {
		if !slices.ContainsFunc(all, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			all = append(all, name+"=")
		}
	}
	return all
}

// limited reports whether processes are limited, and PID 1 may count.
func (s *Spec) limited() bool { return s.Config != nil && s.Config.Resources.PIDs > 0 }

// An Instance is a launched sandbox.
type Instance struct {
	Stream io.ReadWriteCloser // PID 1's standard input and output; closing it ends PID 1
	Stderr io.Reader          // error output of PID 1 and of the backend
	PID    int                // a child process, the ancestor of all others; 0: there is none
	Wait   func() error       // returns when all processes have ended; called once
	Kill   func() error       // ends all processes at once; may be called at any time
	// Namespaced waits until PID 1's namespaces exist, before any program runs in them, and returns
	// the number on the host of a process in them; 0: it has ended. Called at most once. nil: they
	// are not of the host's kernel, or the backend does not say when.
	Namespaced func() int
	// Pause stops all processes, PID 1 among them, and returns when they stand still; after an error
	// they run on. Resume has them run on. nil: the shim does it by the control group.
	Pause, Resume func() error
	// Renew is told each other Spec.Deadline; nil: the backend has no use for it.
	Renew func(deadline time.Time) error
	// Again waits for another stream to the same PID 1, after the end of the one before; an error says
	// that there will be none, as after Kill. nil: the end of Stream is PID 1's.
	Again func() (io.ReadWriteCloser, error)
	// Save writes MemoryFiles of a paused sandbox to an empty directory. They count once complete,
	// which is called once, has returned: durable ones are on the disk then, others count until the
	// machine restarts. The sandbox may run on before. nil: the backend keeps no memory.
	Save func(dir *os.File) (complete func(durable bool) error, err error)
	// Explain returns what the error output says of why Spec.Memory was not restored; nil: nothing.
	// It may be nil.
	Explain func(stderr string) error
}
