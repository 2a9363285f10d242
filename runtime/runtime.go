package runtime

import (
	"context"

	"wolffia/perm"
)

// A Runtime makes and ends sandboxes. Its methods may be called concurrently, and from any
// process that uses the same state directory. Canceling ctx abandons the call, not the
// sandbox. [Launch] and [Open] return a [Box], whose methods need no id.
//
// A sandboxID is the id, the name, or a unique prefix of the id. An unknown one is
// [ErrNotFound], an ambiguous one [ErrInvalid].
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
	// systems, and returns when they are gone. The sandbox is kept and can be started again.
	// Stopping a sandbox that does not run is no error.
	Stop(ctx context.Context, sandboxID string) error

	// Destroy stops a sandbox, releases everything that it has, and returns when all that ran
	// inside has ended and all of it is gone. Processes of the runtime itself, which have
	// nothing more to do, may take some milliseconds longer to end. If ctx ends, before the
	// call, as in a deferred one, or during it, the sandbox is destroyed all the same, within ten
	// seconds from then; if that is not enough, it is an error.
	Destroy(ctx context.Context, sandboxID string) error

	// Get returns one sandbox.
	Get(ctx context.Context, sandboxID string) (*Sandbox, error)

	// List returns all sandboxes of this runtime, oldest first.
	List(ctx context.Context) ([]*Sandbox, error)
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
}

// A PermissionSetter is a Runtime that can change which parts of its codebase a sandbox may
// access, also while it runs. Use a type assertion to find out whether a Runtime can.
type PermissionSetter interface {
	// SetPermissions replaces and records all rules of a sandbox. They are in force when it
	// returns if the sandbox runs, else from the next start. Invalid rules and a sandbox
	// without a codebase are [ErrInvalid] and change nothing; [ErrConflict]: it runs, and its
	// codebase was moved or replaced since its start. With any other error either
	// the old rules are recorded and in force, or the new ones are recorded and the error
	// says that it is unknown whether they are in force. Calls for one sandbox are
	// serialized. Once a change has begun, canceling ctx does not stop it.
	SetPermissions(ctx context.Context, sandboxID string, rules []perm.Rule) error
}

// RuntimeWithExecutor is a Runtime whose sandboxes run commands.
type RuntimeWithExecutor interface {
	Runtime
	Executor
}
