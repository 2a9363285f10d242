package runtime

import (
	"time"

	"wolffia/network"
	"wolffia/perm"
)

// DefaultMountPoint is where the codebase is inside a sandbox.
const DefaultMountPoint = "/workspace"

// A SandboxConfig says what sandbox to make. The zero value is valid.
type SandboxConfig struct {
	// ID is twelve of [a-z0-9]; empty means a random one.
	ID string `json:"id,omitempty"`
	// Name is a second, unique name: up to 63 of [a-zA-Z0-9._-], the first a
	// letter or digit, and not of an id's form.
	Name string `json:"name,omitempty"`
	// CodebaseID is the caller's name for the codebase. It is recorded, and not used.
	CodebaseID string `json:"codebaseId,omitempty"`
	// CodebasePath is the directory that appears, filtered by Permissions, at the mount
	// point. A symbolic link is resolved once, at Create. Empty means no codebase: the mount
	// point is an empty temporary directory.
	CodebasePath string `json:"codebasePath,omitempty"`
	// CodebaseNames are other absolute paths that lead to CodebasePath on the host. Where the
	// sandbox runs on the host's system, each is a symbolic link to the mount point inside, as far
	// as nothing else is there.
	CodebaseNames []string `json:"codebaseNames,omitempty"`
	// Permissions are the rules. A file that no rule matches does not exist inside, so
	// without rules the codebase is empty. Package policy makes them for a codebase.
	Permissions []perm.Rule `json:"permissions,omitempty"`
	// Filter is what enforces Permissions. Empty means FilterFuse; if this host cannot use
	// FUSE and Permissions grant everything, it means FilterNone. Create records which.
	Filter Filter `json:"filter,omitempty"`
	// CopyOnWrite keeps what the sandbox changes in its codebase beside the host's directory,
	// which stays as it is: see [Workspace]. It needs FilterFuse.
	CopyOnWrite bool `json:"cow,omitempty"`
	// GitDirs says whose the git directories of the codebase are; empty means GitPrivate.
	GitDirs GitDirs `json:"gitDirs,omitempty"`
	// GitCredentials leaves passwords and tokens in the copies of the host's git configuration,
	// with GitPrivate.
	GitCredentials bool `json:"gitCredentials,omitempty"`
	// MountPoint is where the codebase appears; empty means DefaultMountPoint.
	MountPoint string `json:"mountPoint,omitempty"`
	// Mounts are other host directories to show, unfiltered.
	Mounts []Mount `json:"mounts,omitempty"`
	// Volumes are directories of the state directory, which outlive the sandbox: see package
	// volume. Create and Start make those that do not exist.
	Volumes []VolumeMount `json:"volumes,omitempty"`
	// Labels are recorded. Those that begin with "wolffia." are reserved for wolffia's own
	// programs: a program that takes labels from a user must refuse them.
	Labels map[string]string `json:"labels,omitempty"`
	// Runtime is the name of the runtime; empty means the default of the one that is called.
	Runtime string `json:"runtime,omitempty"`
	// Rootfs is a directory with the system to run on, read-only; empty means
	// the host's own system directories.
	Rootfs string `json:"rootfs,omitempty"`
	// Image is the name of an image with the system to run on, in place of Rootfs, such as
	// busybox:1.36. The sandbox may change all of it; its changes are its own, survive Stop,
	// and are removed by Destroy. The image's environment and, without a codebase and Cwd,
	// its working directory are defaults, and with Root its user: see RunAs.
	Image string `json:"image,omitempty"`
	// BareImage leaves an image's /tmp and the codebase's place, without a codebase, as they are:
	// what is there stays with the image's other changes. Else both are directories in memory.
	BareImage bool `json:"bareImage,omitempty"`
	// ImageID is the digest of the image's configuration, sha256:HEX. If empty, Create sets
	// it to that of Image; if given, it takes precedence over Image.
	ImageID string `json:"imageId,omitempty"`
	// Root makes programs inside root: the user of the sandbox has the id 0 there, capabilities as in
	// a container, and further users and groups, which on the host are subordinate ids of the user
	// that the sandbox runs as (subuid(5)). They have no rights outside. Only a sandbox with an
	// image can have it.
	Root bool `json:"root,omitempty"`
	// RunAs is the user inside that commands and sessions run as, in a sandbox with
	// Root, unless a [Command] names another one: NAME or UID, also with :GROUP. Empty: the image's,
	// which Create sets, or else root.
	RunAs string `json:"runAs,omitempty"`
	// UserName is the name inside of the user of a sandbox without Root, whose home is /home/NAME; empty: as on the host.
	UserName string `json:"userName,omitempty"`
	// Platform chooses how the runtime isolates, where it has a choice (gVisor: systrap,
	// kvm); empty means its default.
	Platform string `json:"platform,omitempty"`
	// Env is added to the environment that every process starts with.
	Env map[string]string `json:"env,omitempty"`
	// Git is git's configuration of the system level inside; nil: the system's own. Where the
	// codebase has another owner inside than on the host, or other inode numbers, Create begins it
	// with core.checkStat=minimal, so that git does not read all files again (nil: only in gVisor
	// and for root).
	Git *GitConfig `json:"git,omitempty"`
	// NoGitMonitor has git inside look at each file of the working tree itself. Else it asks the
	// tree server what has changed, where git directories are the sandbox's own (GitPrivate), and
	// git is the host's, from version 2.43 on.
	NoGitMonitor bool `json:"noGitMonitor,omitempty"`
	// Cwd is the working directory of processes that name none; empty means
	// the mount point.
	Cwd string `json:"cwd,omitempty"`
	// Network is what the sandbox can reach; empty means NetworkNone.
	Network Network `json:"network,omitempty"`
	// Egress are the names that a sandbox with NetworkFiltered can reach; nil: none. With
	// another network it must be nil. Its headers are files of this host, and its Hosts may be
	// addresses of this host: a program that takes it from others must check both.
	Egress *network.Policy `json:"egress,omitempty"`
	// Ask are the kinds of accesses (AskNetwork, AskWrite, AskReveal) that wait for an answer where
	// somebody can give one, instead of being refused: see [Asker].
	Ask []string `json:"ask,omitempty"`
	// AskLimit is how long each waits; 0 means DefaultAskLimit.
	AskLimit time.Duration `json:"askLimitNs,omitempty"`
	// Publish are ports of the host that lead to servers inside.
	Publish []Publish `json:"publish,omitempty"`
	// Expose are services of the host's loopback that the sandbox reaches.
	Expose []Expose `json:"expose,omitempty"`
	// Sockets are unix sockets of the host that the sandbox reaches. Create resolves symbolic
	// links in their Source.
	Sockets []Socket `json:"sockets,omitempty"`
	// Resources are limits on what the sandbox may use.
	Resources Resources `json:"resources,omitzero"`
	// Docker is configuration for the runtime docker only; nil is the default.
	Docker *DockerConfig `json:"docker,omitempty"`
	// Kubernetes is configuration for the runtime kubernetes only; nil is the default.
	Kubernetes *KubernetesConfig `json:"kubernetes,omitempty"`
	// BoundToCaller destroys the sandbox when the process that started it ends, in any way. With
	// CopyOnWrite it only stops it, and a later Start binds it to no process.
	BoundToCaller bool `json:"boundToCaller,omitempty"`
	// TTL is how long the sandbox lives from Create on, whether it runs or not;
	// see [Runtime]. 0 means until it is destroyed.
	TTL time.Duration `json:"ttlNs,omitempty"`
	// IdleTimeout is how long it may run unused; see [Runtime]. 0 means without limit.
	IdleTimeout time.Duration `json:"idleTimeoutNs,omitempty"`
	// IdleAction is what happens at the end of the idle timeout; empty: [IdleDestroy].
	IdleAction IdleAction `json:"idleAction,omitempty"`
}

// An IdleAction is what happens to a sandbox that was not used for its idle timeout.
type IdleAction string

// The actions.
const (
	IdleDestroy IdleAction = "destroy"
	IdleStop    IdleAction = "stop"
	// IdlePause: as by Pause; the next use resumes it.
	IdlePause IdleAction = "pause"
	// IdleHibernate: its memory is kept on the disk, and its processes end; the next use brings them
	// back.
	IdleHibernate IdleAction = "hibernate"
)

// Resources are limits on what a sandbox may use. The zero value has no limits.
type Resources struct {
	// Disk is how many bytes the sandbox may add to the codebase from each
	// start on, as allocated on the host's disk; what it deletes makes room
	// again. Beyond it, writes fail with EDQUOT. 0 means no limit.
	Disk int64 `json:"disk,omitempty"`
	// Memory is how many bytes of memory all processes may use together; beyond
	// it the kernel kills one. 0 means no limit.
	Memory int64 `json:"memory,omitempty"`
	// CPUs is how many processors' time they may use together, such as 1.5. 0 is
	// no limit.
	CPUs float64 `json:"cpus,omitempty"`
	// PIDs is how many processes and threads there may be at once, PID 1's own
	// aside. 0 means no limit.
	PIDs int64 `json:"pids,omitempty"`
	// BestEffort enforces Memory, CPUs and PIDs as far as the host can. Without it, a limit
	// that cannot be enforced exactly is [ErrUnsupported].
	BestEffort bool `json:"bestEffort,omitempty"`
}

// An Enforcement says what enforces a limit.
type Enforcement string

// The enforcements.
const (
	// ByCgroup: a control group of the host, exactly, for all processes together.
	ByCgroup Enforcement = "cgroup"
	// ByEngine: the engine that runs the sandbox, exactly.
	ByEngine Enforcement = "engine"
	// ByRlimit: resource limits of processes. Memory is then limited for each process
	// alone, and private memory only; PIDs are limited for all together.
	ByRlimit Enforcement = "rlimit"
	// ByNothing: it is not enforced.
	ByNothing Enforcement = "none"
)

// LimitsState says what enforces the limits of a running sandbox; empty without a
// limit.
type LimitsState struct {
	Memory Enforcement `json:"memory,omitempty"`
	CPUs   Enforcement `json:"cpus,omitempty"`
	PIDs   Enforcement `json:"pids,omitempty"`
	// OOMKills is how many processes the kernel has killed since the start because of
	// Memory, if a control group enforces it; else 0.
	OOMKills int64 `json:"oomKills"`
	// MemoryUsed is how many bytes the sandbox uses now, and CPUTime how long it has computed since
	// the start, if a control group counts them; else 0.
	MemoryUsed int64         `json:"memoryUsed,omitempty"`
	CPUTime    time.Duration `json:"cpuTimeNs,omitempty"`
}

// A DockerConfig is configuration for the runtime docker only.
type DockerConfig struct {
	// Host is the engine's socket, unix:///PATH. Empty means DOCKER_HOST at Create, else
	// the first that exists of the system's and the user's own Docker and Podman.
	Host string `json:"host,omitempty"`
	// ReadOnlyRoot makes the image's file system read-only.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
}

// A KubernetesConfig is configuration for the runtime kubernetes only.
type KubernetesConfig struct {
	// Config is the path of the file with the cluster's address and credentials (kubeconfig). Empty
	// means KUBECONFIG at Create, else ~/.kube/config, else those of the pod that wolffia runs in.
	Config string `json:"config,omitempty"`
	// Context is one of the contexts of Config; empty means its current context at Create.
	Context string `json:"context,omitempty"`
	// Namespace is where the sandbox's objects are; empty means the context's.
	Namespace string `json:"namespace,omitempty"`
	// RuntimeClass is that of the pod, such as gvisor or kata; empty is the cluster's default.
	RuntimeClass string `json:"runtimeClass,omitempty"`
	// Guest is the image that has wolffia-guest, at /wolffia-guest.
	Guest string `json:"guest,omitempty"`
}

// A GitConfig is git's configuration of the system level inside a sandbox, added to that of
// /etc/gitconfig. The user's own inside and the repositories' take precedence. git before
// 2.32 ignores it. Its texts are UTF-8, and 512 KiB at most together.
type GitConfig struct {
	// Config is the text of a configuration file: git-config(1).
	Config string `json:"config,omitempty"`
	// Ignore has patterns of files that git ignores in all repositories: gitignore(5). Empty:
	// none, unless Config names a file with them.
	Ignore string `json:"ignore,omitempty"`
	// Files are up to 64 texts that Config names, by numbers: "1" is /run/wolffia/git/1 inside.
	Files map[string]string `json:"files,omitempty"`
}

// A Mount shows a host directory or file inside the sandbox.
type Mount struct {
	Source   string `json:"source"`             // absolute
	Target   string `json:"target"`             // absolute, inside
	Writable bool   `json:"writable,omitempty"` // as far as the user may write there
	// Unfiltered permits a Source that is the codebase, is in it or holds it: the mount shows it
	// without the rules. Create refuses such a Source otherwise.
	Unfiltered bool `json:"unfiltered,omitempty"`
	// Toolchain marks a part of the host's system, which /usr is too. At a start it is left
	// out if it no longer exists, and a directory of it in which a program of the host listens
	// on a socket is empty inside, where another mount would be an error. Source has no
	// symbolic links.
	Toolchain bool `json:"toolchain,omitempty"`
	// Within is a directory, absolute and without symbolic links, that Source must be in once
	// Create has resolved its links; empty: it may be anywhere.
	Within string `json:"within,omitempty"`
}

// A VolumeMount shows a volume inside a sandbox. Sandboxes that have the same volume can
// write to each other by it, whatever their rules and networks are.
type VolumeMount struct {
	// Name has the form of a sandbox's name; only that of a cache begins with CachePrefix. If
	// empty, Create sets it to that of the codebase's own volume for Cache, which sandboxes
	// over other codebases cannot have.
	Name string `json:"name,omitempty"`
	// Target is absolute, inside; or ~ or ~/PATH for the home directory inside or a path below
	// it, which Create replaces.
	Target string `json:"target"`
	// ReadOnly: the sandbox cannot change the volume.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Cache says what the volume caches, such as go: lower-case letters and dashes. Such a
	// volume may be pruned when it was not used for some time. Empty: it is not a cache.
	Cache string `json:"cache,omitempty"`
	// Key makes the cache one that only sandboxes with the same Key have, over the codebase or
	// another working tree of its repository. Create sets Name and Repository by it. What is not
	// used is deleted when all such caches together are too large. Empty: all sandboxes over the
	// codebase have the cache.
	Key string `json:"key,omitempty"`
	// Repository is the directory whose sandboxes have a cache with a Key, set by Create.
	Repository string `json:"repository,omitempty"`
}

// A Network says what a sandbox can reach.
type Network string

// The networks.
const (
	NetworkNone Network = "none" // its own loopback only
	// its own loopback, and over that the names of SandboxConfig.Egress
	NetworkFiltered Network = "filtered"
	NetworkHost     Network = "host" // all that the host can, its loopback included
)

// A State is where a sandbox is in its life.
type State string

// The states. A sandbox whose host process was killed is dead; it stays
// listed until it is started or destroyed.
const (
	StateCreated State = "created"
	StateRunning State = "running"
	// StatePaused: its processes stand still until Resume.
	StatePaused State = "paused"
	// StateHibernated: its processes have ended, and its memory is kept for its next use or Start.
	StateHibernated State = "hibernated"
	StateStopped    State = "stopped"
	StateDead       State = "dead"
)

// Runs reports whether a sandbox in the state has processes, which may stand still.
func (s State) Runs() bool { return s == StateRunning || s == StatePaused }

// A Sandbox describes a sandbox at one moment.
type Sandbox struct {
	ID           string
	Name         string // empty if it has none
	Runtime      string
	State        State
	Reason       string // why it is dead or expired, if known
	Labels       map[string]string
	CreatedAt    time.Time // to the millisecond
	CodebaseID   string
	CodebasePath string // resolved
	Filter       Filter // empty: no codebase
	CopyOnWrite  bool
	Elsewhere    bool   // on another machine, where PID 1 may outlive its processes here: Start connects again
	Image        string // empty: the host's system, or a directory
	MountPoint   string
	Network      Network
	UID, GID     int // inside, and on the host; with Root: on the host, and 0 inside
	Root         bool
	RunAs        string    // the user of commands with Root; empty: root
	User, Home   string    // the name and home directory inside of its own user, which with Root is root
	Resources    Resources // its limits
	// ExpiresAt is when its time to live is over, to the millisecond; zero:
	// never. If the host's clock is set, it moves with it.
	ExpiresAt   time.Time
	IdleTimeout time.Duration // 0: none
	IdleAction  IdleAction    // empty: IdleDestroy
	Ask         []string      // as SandboxConfig.Ask
	// WakesOnUse says that its next use brings it back: it is paused since it was not used, or
	// hibernated.
	WakesOnUse bool
	Expired    Expiry // why its lifetime is over; empty if it is not
}

// Usable reports whether commands can be run in it now.
func (s *Sandbox) Usable() bool { return s.State == StateRunning || s.WakesOnUse }

// ContainerName returns the sandbox's name, or its id if it has none.
func (s *Sandbox) ContainerName() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// A Usage is what a running sandbox uses.
type Usage struct {
	// Memory is what its processes have for themselves, in bytes, and CPUTime how long they have
	// computed since its start. A control group counts them if the sandbox has limits; else they are
	// sums of what the kernel says of each process, without the memory that processes share.
	Memory  int64
	CPUTime time.Duration
	// Sent and Received are bytes to and from hosts since the start, with NetworkFiltered. Counted
	// says that they are known.
	Sent, Received int64
	Counted        bool
	// Running are the command lines of what runs, at most three, the newest first, as far as this host
	// sees processes: not those of a kernel of the sandbox's own. nil: it is not known. The sandbox
	// chooses their text, and what is not printable in it is replaced.
	Running []string
}
