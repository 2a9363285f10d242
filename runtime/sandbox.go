package runtime

import (
	"time"

	"wolffia/perm"
)

// DefaultMountPoint is where the codebase is inside a sandbox.
const DefaultMountPoint = "/workspace"

// A SandboxConfig says what sandbox to make. Only what a field's comment calls
// required must be set.
type SandboxConfig struct {
	// ID is twelve of [a-z0-9]; empty means a random one.
	ID string `json:"id,omitempty"`
	// Name is a second, unique name: up to 63 of [a-zA-Z0-9._-], the first a
	// letter or digit, and not of an id's form.
	Name string `json:"name,omitempty"`
	// CodebaseID is the caller's name for the codebase; it is kept, not used.
	CodebaseID string `json:"codebaseId,omitempty"`
	// CodebasePath is the directory that appears, filtered by Permissions, at
	// the mount point. A symbolic link is resolved once, at Create. Empty means
	// none: the mount point is an empty temporary directory.
	CodebasePath string `json:"codebasePath,omitempty"`
	// Permissions are the rules. What no rule matches does not exist inside;
	// so without rules the tree is empty.
	Permissions []perm.Rule `json:"permissions,omitempty"`
	// MountPoint is where the codebase appears; empty means DefaultMountPoint.
	MountPoint string `json:"mountPoint,omitempty"`
	// Mounts are other host directories to show, unfiltered.
	Mounts []Mount `json:"mounts,omitempty"`
	// Labels are kept with the sandbox. Those that begin with "wolffia." are
	// the service's own; whoever takes labels from a user refuses them.
	Labels map[string]string `json:"labels,omitempty"`
	// Runtime is the name of the runtime; empty means the one that is asked.
	Runtime string `json:"runtime,omitempty"`
	// Rootfs is a directory with the system to run on, read-only; empty means
	// the host's own system directories.
	Rootfs string `json:"rootfs,omitempty"`
	// Image is an image with the system to run on, in place of Rootfs, by a name
	// that the runtime knows, such as busybox:1.36. The sandbox may change all of
	// it: what it changes is its own, stays when it is stopped, and goes with it.
	// What the image says of environment and, without a codebase and Cwd, working
	// directory is the default; its user is not: a sandbox has its caller's.
	Image string `json:"image,omitempty"`
	// ImageID is which image that was at Create, where the runtime keeps images
	// by digest: sha256: of its configuration. Given beside Image, or alone, it
	// decides.
	ImageID string `json:"imageId,omitempty"`
	// Platform is how the runtime does its work, where it has a choice (gVisor:
	// systrap, kvm); empty means its default.
	Platform string `json:"platform,omitempty"`
	// Env is added to the environment that every process starts with.
	Env map[string]string `json:"env,omitempty"`
	// Cwd is the working directory of processes that name none; empty means
	// the mount point.
	Cwd string `json:"cwd,omitempty"`
	// Network is what the sandbox can reach; empty means NetworkNone.
	Network Network `json:"network,omitempty"`
	// Resources are limits on what the sandbox may use.
	Resources Resources `json:"resources,omitzero"`
	// Docker is what only the runtime docker has; nil is the default.
	Docker *DockerConfig `json:"docker,omitempty"`
	// BoundToCaller destroys the sandbox when the process that started it
	// ends, however it does.
	BoundToCaller bool `json:"boundToCaller,omitempty"`
	// TTL is how long the sandbox lives from Create on, whether it runs or not;
	// see [Renewer]. 0 means until it is destroyed.
	TTL time.Duration `json:"ttlNs,omitempty"`
	// IdleTimeout is how long it may run without being used; see [Renewer]. 0
	// means as long as it likes.
	IdleTimeout time.Duration `json:"idleTimeoutNs,omitempty"`
}

// Resources are limits on what a sandbox may use. The zero value has none.
type Resources struct {
	// Disk is how many bytes the sandbox may add to the codebase from each
	// start on, as allocated on the host's disk; what it deletes makes room
	// again. Beyond it, writes fail with EDQUOT. 0 is no limit.
	Disk int64 `json:"disk,omitempty"`
	// Memory is how many bytes of memory all processes may use together; beyond
	// it the kernel kills one. 0 is no limit.
	Memory int64 `json:"memory,omitempty"`
	// CPUs is how many processors' time they may use together, such as 1.5. 0 is
	// no limit.
	CPUs float64 `json:"cpus,omitempty"`
	// PIDs is how many processes and threads there may be at once, PID 1's own
	// aside. 0 is no limit.
	PIDs int64 `json:"pids,omitempty"`
	// BestEffort takes what the host can do of Memory, CPUs and PIDs. Without it,
	// one that cannot be kept exactly is [ErrUnsupported].
	BestEffort bool `json:"bestEffort,omitempty"`
}

// An Enforcement says what keeps a limit.
type Enforcement string

// The enforcements.
const (
	// ByCgroup: a control group of the host's, exactly, all processes together.
	ByCgroup Enforcement = "cgroup"
	// ByEngine: the engine that runs the sandbox, exactly.
	ByEngine Enforcement = "engine"
	// ByRlimit: limits of processes. That of Memory binds each process for
	// itself, and its private memory only; that of PIDs all together.
	ByRlimit Enforcement = "rlimit"
	// ByNothing: it is not kept.
	ByNothing Enforcement = "none"
)

// LimitsState says what keeps the limits of a running sandbox. What was not
// asked for is empty.
type LimitsState struct {
	Memory Enforcement `json:"memory,omitempty"`
	CPUs   Enforcement `json:"cpus,omitempty"`
	PIDs   Enforcement `json:"pids,omitempty"`
	// OOMKills is how many processes the kernel has killed since the start
	// because of Memory, if that is kept by a control group.
	OOMKills int64 `json:"oomKills"`
}

// A DockerConfig is what only the runtime docker has.
type DockerConfig struct {
	// Host is the engine's socket, unix:///PATH. Empty means DOCKER_HOST at
	// Create, else the first that is there of the system's and the user's own
	// Docker and Podman.
	Host string `json:"host,omitempty"`
	// ReadOnlyRoot makes the image's file system read-only.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
}

// A Mount shows a host directory or file inside the sandbox.
type Mount struct {
	Source   string `json:"source"`             // absolute
	Target   string `json:"target"`             // absolute, inside
	Writable bool   `json:"writable,omitempty"` // as far as the user may write there
}

// A Network says what a sandbox can reach.
type Network string

// The networks.
const (
	NetworkNone Network = "none" // its own loopback only
	NetworkHost Network = "host" // all that the host can, its loopback included
)

// A State is where a sandbox is in its life.
type State string

// The states. A sandbox whose host process was killed is dead; it stays
// listed until it is started or destroyed.
const (
	StateCreated State = "created"
	StateRunning State = "running"
	StateStopped State = "stopped"
	StateDead    State = "dead"
)

// A Sandbox is what is known of one.
type Sandbox struct {
	ID           string
	Name         string // empty if it has none
	Runtime      string
	State        State
	Reason       string // why it is dead, or over, if it is known
	Labels       map[string]string
	CreatedAt    time.Time // to the millisecond
	CodebaseID   string
	CodebasePath string // resolved
	Image        string // empty: the host's system, or a directory
	MountPoint   string
	Network      Network
	UID, GID     int // inside, and on the host
	// ExpiresAt is when its time to live is over, to the millisecond; zero:
	// never. If the host's clock is set, it moves with it.
	ExpiresAt   time.Time
	IdleTimeout time.Duration // 0: none
	Expired     Expiry        // why its lifetime is over; empty: it is not
}

// ContainerName is the name by which people call the sandbox: its name, else
// its id.
func (s *Sandbox) ContainerName() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}
