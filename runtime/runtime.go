package runtime

import (
	"context"
	"net"
	"time"
)

// A Runtime makes and ends sandboxes. Its methods may be called concurrently, and from any
// process that uses the same state directory. Canceling ctx abandons the call, not the
// sandbox. [Launch] and [Open] return a [Box], whose methods need no id.
//
// A sandboxID is the id, the name, or a unique prefix of the id. An unknown one is
// [ErrNotFound], an ambiguous one [ErrInvalid].
//
// A sandbox may have a lifetime.
// The time to live counts from Create, or the last Renew, whether the sandbox runs or not.
// It counts real time: also while the machine sleeps, and unaffected by setting the clock.
//
// The idle timeout counts while the sandbox runs, from its start or its last use, and not
// while the machine sleeps. A sandbox is in use while a command runs, in a session or not and
// with a caller that waits or without, while a terminal is attached, while files are copied,
// and while a background job of a session runs. Each call about its sessions, Touch and
// Renew are a use too. Processes that a command outside of a session left behind are not.
//
// When either is over the sandbox ends as by Stop, and is destroyed: using it is [ErrNotFound]. With an
// IdleAction the idle timeout does that instead; of a sandbox that it has paused the next use resumes it.
// Get still returns it, with the reason, until the next List or Create removes it.
type Runtime interface {
	// Name is the name by which a [SandboxConfig] asks for this runtime.
	Name() string

	// Create makes a sandbox and does not start it. If it fails, it leaves nothing. An ID or
	// Name that is in use is [ErrExists].
	Create(ctx context.Context, config *SandboxConfig) (*Sandbox, error)

	// Start starts a sandbox that is created, stopped or dead; one that runs is
	// [ErrConflict]. If it fails, it leaves no process and no mount, and the sandbox as it
	// was.
	Start(ctx context.Context, sandboxID string) error

	// Stop ends all processes of a sandbox, and with them the contents of its temporary file
	// systems, and returns when they have ended. The sandbox is kept and can be started again.
	// Stopping a sandbox that does not run is not an error.
	Stop(ctx context.Context, sandboxID string) error

	// Pause has all processes of a running sandbox stand still until Resume. What is in memory stays,
	// and so do open connections. Time-outs of commands and the idle timeout do not count meanwhile;
	// the time to live does. Until then commands, sessions, files and ports are [ErrConflict]; what
	// needs no process inside, such as the changes of a copied codebase, works, and Stop and Destroy
	// end the sandbox. Pausing a paused sandbox is not an error. One that does not run is
	// [ErrConflict], one whose backend cannot stop processes [ErrUnsupported].
	Pause(ctx context.Context, sandboxID string) error

	// Resume has a paused sandbox run on, and brings a hibernated one back. One that runs is not an
	// error; one that has no processes is [ErrConflict].
	Resume(ctx context.Context, sandboxID string) error

	// Destroy stops a sandbox, releases everything that it has, and returns when all that ran
	// inside has ended and all of it is removed. Processes of the runtime itself, which have
	// nothing more to do, may take some milliseconds longer to end. If ctx ends, before the
	// call, as in a deferred one, or during it, the sandbox is destroyed all the same, within ten
	// seconds from then; if that is not enough, it is an error.
	Destroy(ctx context.Context, sandboxID string) error

	// Get returns one sandbox.
	Get(ctx context.Context, sandboxID string) (*Sandbox, error)

	// List returns all sandboxes of this runtime, oldest first.
	List(ctx context.Context) ([]*Sandbox, error)

	// Touch restarts the idle time of a running sandbox. One that does not run is
	// [ErrConflict].
	Touch(ctx context.Context, sandboxID string) error

	// Renew sets the time to live, from now on, whether the sandbox runs or not, and
	// whether it had one or not. 0 removes it.
	Renew(ctx context.Context, sandboxID string, ttl time.Duration) (*Sandbox, error)

	// Prune removes sandboxes whose lifetime is over, dead ones, and what an interrupted Create or
	// Destroy has left; with stopped also stopped ones. It returns what it removed even with an
	// error. It may be called at any time: a sandbox that another call is using is left alone.
	Prune(ctx context.Context, stopped bool) ([]Pruned, error)
}

// An Executor runs commands in a running sandbox; one that does not run is
// [ErrConflict]. Canceling ctx kills the command and all that it started.
type Executor interface {
	// Exec runs a command to its end. That the command fails is not an error: see
	// [Result]. An error means that it could not be run, or that its end is unknown. A
	// program that could not be started is a [*StartError].
	Exec(ctx context.Context, sandboxID string, cmd *Command) (*Result, error)

	// ExecStream runs a command to its end and sends its output: standard output and
	// standard error, merged in the order in which they were written. It always closes
	// output. It returns an [*ExitError] if the command ended with another code than 0. A
	// slow receiver blocks the command.
	ExecStream(ctx context.Context, sandboxID string, cmd *Command, output chan<- []byte) error

	// StartProcess starts a process with streams of its own, or with a terminal. The caller
	// closes it. Canceling ctx after StartProcess has returned has no effect.
	StartProcess(ctx context.Context, sandboxID string, cmd *Command) (Process, error)

	// DialPort connects by TCP to the server that listens at a port of the sandbox's loopback,
	// with any network. The connection has a method CloseWrite, and keeps the sandbox in use.
	// The caller closes it. A sandbox that does not run is [ErrConflict]; without a server,
	// errors.Is finds syscall.ECONNREFUSED.
	DialPort(ctx context.Context, sandboxID string, port int) (net.Conn, error)
}

// RuntimeWithExecutor is a Runtime whose sandboxes run commands.
type RuntimeWithExecutor interface {
	Runtime
	Executor
}
