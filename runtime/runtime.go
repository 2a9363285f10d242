package runtime

import (
	"context"

	"wolffia/perm"
)

// A Runtime makes and ends sandboxes. Its methods may be called concurrently,
// and from any process that has the same state directory. Canceling ctx
// abandons the call, not the sandbox.
//
// A sandboxID is the id, the name, or a prefix of the id that no other id
// has: one that nothing has is [ErrNotFound], one that is not unique
// [ErrInvalid].
type Runtime interface {
	// Name is the name by which a [SandboxConfig] asks for this runtime.
	Name() string

	// Create makes a sandbox and does not start it. If it fails, nothing is
	// left behind. A taken ID or Name is [ErrExists].
	Create(ctx context.Context, config *SandboxConfig) (*Sandbox, error)

	// Start starts a sandbox that is created, stopped or dead; one that runs
	// is [ErrConflict]. If it fails, no process and no mount is left, and the
	// sandbox is as it was.
	Start(ctx context.Context, sandboxID string) error

	// Stop ends all processes of a sandbox, and with them the contents of its
	// temporary file systems; it keeps the sandbox, and Start works again. It
	// returns when they are gone. Stopping what does not run is no error.
	Stop(ctx context.Context, sandboxID string) error

	// Destroy stops a sandbox and releases everything it has. It returns when
	// all is gone.
	Destroy(ctx context.Context, sandboxID string) error

	// Get returns one sandbox.
	Get(ctx context.Context, sandboxID string) (*Sandbox, error)

	// List returns all sandboxes of this runtime, oldest first.
	List(ctx context.Context) ([]*Sandbox, error)
}

// An Executor runs commands in a running sandbox; one that does not run is
// [ErrConflict]. Canceling ctx kills the command and all that it started.
type Executor interface {
	// Exec runs a command to its end. That the command fails is not an error:
	// see [ExecResult]. An error means that it could not be run, or that
	// nobody knows how it ended. A program that could not be started is a
	// [*StartError].
	Exec(ctx context.Context, sandboxID string, req *ExecRequest) (*ExecResult, error)

	// ExecStream runs a command and sends its output, standard output and
	// standard error merged in the order in which they were written, until it
	// ends. It closes output itself, also when it fails, and returns an
	// [*ExitError] if the command ended with another code than 0. A receiver
	// that is slow holds the command up.
	ExecStream(ctx context.Context, sandboxID string, req *ExecRequest, output chan<- []byte) error

	// StartProcess is what the other two are made of: a process with streams
	// of its own, or a terminal. The caller closes it. Canceling ctx after it
	// has returned does nothing.
	StartProcess(ctx context.Context, sandboxID string, spec *ProcessSpec) (Process, error)
}

// A PermissionSetter is a Runtime that can change what a sandbox may see of its
// codebase, also while it runs. Not every Runtime can: whether one does is found
// out by a type assertion.
type PermissionSetter interface {
	// SetPermissions replaces all rules of a sandbox. They are kept with it,
	// and bind before it returns if it runs, or from its next start. Rules that
	// are not valid, and a sandbox without a codebase, are [ErrInvalid], and
	// change nothing. With any other error either the old rules are kept and in
	// force, or the new ones are kept and the error says that it is not known
	// whether they are in force. Calls for one sandbox wait for each other.
	// Once a change has begun, canceling ctx does not stop it.
	SetPermissions(ctx context.Context, sandboxID string, rules []perm.Rule) error
}

// RuntimeWithExecutor is a Runtime whose sandboxes run commands.
type RuntimeWithExecutor interface {
	Runtime
	Executor
}
