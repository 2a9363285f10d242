package runtime

import (
	"context"
	"strings"
	"syscall"
	"time"
)

// A SessionManager keeps shells in sandboxes: what one command changes (working directory,
// variables, functions, options, background jobs) the next one finds. Sessions outlive their
// callers, and end with the sandbox. [Box].Session returns a [Shell], whose methods need no
// id.
//
// A sessionID is [Session].ID, or SANDBOX/NAME with any name of the sandbox. An unknown one is
// [ErrNotFound]; a sandbox that does not run is [ErrConflict]. A job is named by its id or name.
//
// A command can outlive its caller, so that a caller that is killed loses neither the command nor
// its output. SessionExec with an Operation that the session does not know begins the command.
// With a known one it waits for that command, whether it runs or has ended, and returns its result
// with all of its output; Duration is how long the command ran. A known Operation with another
// Command, Cwd, Env or Timeout is [ErrExists]. Canceling ctx, or the end of the caller, does not
// affect the command. Stdin must be nil. [DefaultMaxOutput] bytes of each stream are kept; output
// never blocks the command.
//
// A session knows its running operations and the last ones that have ended: at most 32, and
// at most 32 MiB of output but for the last one. They end with the session.
type SessionManager interface {
	// CreateSession starts a shell and returns when it answers. A name that is in use is
	// [ErrExists], a shell that does not exist [ErrUnavailable]. A nil config is the default.
	CreateSession(ctx context.Context, sandboxID string, config *SessionConfig) (*Session, error)

	// DestroySession ends a session and all that it has started. Commands that
	// run or wait in it end.
	DestroySession(ctx context.Context, sessionID SessionID) error

	// GetSession returns one session.
	GetSession(ctx context.Context, sessionID SessionID) (*Session, error)

	// ListSessions returns the sessions of a sandbox, by name.
	ListSessions(ctx context.Context, sandboxID string) ([]*Session, error)

	// SessionExec evaluates a command in the session's shell, after earlier commands have
	// ended; it is [Executor].Exec with Session set to the session's name. The result has its
	// end and the state of the shell. Canceling ctx interrupts the command, not the session.
	SessionExec(ctx context.Context, sessionID SessionID, cmd *Command) (*Result, error)

	// SessionExecStream is SessionExec with output as for
	// [Executor].ExecStream. [Executor].StartProcess, with [Command].Session, is faster
	// for much output: its streams need no new memory for each piece.
	SessionExecStream(ctx context.Context, sessionID SessionID, cmd *Command, output chan<- []byte) error

	// CancelOperation interrupts an operation as canceling ctx does other commands, and
	// returns at once. An unknown operation is [ErrNotFound]; for one that has ended,
	// CancelOperation does nothing.
	CancelOperation(ctx context.Context, sessionID SessionID, operation string) error

	// AttachSession connects to a session's terminal: an interactive shell that has the
	// session's state as of its start, and runs until its user ends it. It is started if it
	// does not run; one of a session with a Program that has ended shows its output and its end
	// again. The caller closes the Terminal, which detaches.
	AttachSession(ctx context.Context, sessionID SessionID, req *AttachRequest) (Terminal, error)

	// SessionJobs lists the jobs of a session, oldest first.
	SessionJobs(ctx context.Context, sessionID SessionID) ([]*Job, error)

	// StartJob starts a command as a background job with the session's state. The shell
	// itself starts it, after earlier commands have ended. It uses Command, Env, Cwd and
	// NoWait of req.
	StartJob(ctx context.Context, sessionID SessionID, name string, cmd *Command) (*Job, error)

	// JobOutput returns what a job has written, as far as it is kept, from the offsets on;
	// with follow until the output ends. The caller closes the Process.
	JobOutput(ctx context.Context, sessionID SessionID, job string, stdout, stderr uint64, follow bool) (Process, error)

	// WaitJob waits until a job has ended. Its exit code is known if StartJob started it,
	// else Session.StatusLost is set. If ctx ends first, the job continues.
	WaitJob(ctx context.Context, sessionID SessionID, job string) (Result, error)

	// SignalJob sends a signal to all processes of a job.
	SignalJob(ctx context.Context, sessionID SessionID, job string, sig syscall.Signal) error
}

// RuntimeWithSession is a Runtime whose sandboxes run commands and keep shells.
type RuntimeWithSession interface {
	RuntimeWithExecutor
	SessionManager
}

// A SessionID identifies a session: SANDBOX/NAME, where SANDBOX is any reference to the
// sandbox.
type SessionID string

// SessionIn returns the id of the session called name in a sandbox.
func SessionIn(sandbox, name string) SessionID { return SessionID(sandbox + "/" + name) }

// Split returns the parts of the id. They are not checked; ok is false without a slash.
func (id SessionID) Split() (sandbox, name string, ok bool) { return strings.Cut(string(id), "/") }

// A SessionConfig says what shell to start. The zero value is bash, or sh where bash does
// not exist, in the sandbox's working directory, without start files.
type SessionConfig struct {
	// Name is letters, digits and, not first, any of ._-; at most 64. Empty
	// means a random one.
	Name string `json:"name,omitempty"`
	// Shell is "bash", "sh", or a path inside.
	Shell string `json:"shell,omitempty"`
	// Cwd is where it starts; empty means the sandbox's working directory.
	Cwd string `json:"cwd,omitempty"`
	// Env is added to the sandbox's environment.
	Env map[string]string `json:"env,omitempty"`
	// Rows and Cols are the size of its terminal; 0 means 24 and 80.
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	// User is the user inside that the shell and its commands run as, in a sandbox with Root: as
	// [Command].User.
	User string `json:"user,omitempty"`
	// RC has the shell read the user's start files.
	RC bool `json:"rc,omitempty"`
	// Program is what the shell of its terminal evaluates, once, and then ends: see
	// [SessionManager].AttachSession. Empty: what the terminal's user types.
	Program string `json:"program,omitempty"`
}

// A Session is a shell that is kept in a sandbox.
type Session struct {
	ID        SessionID    `json:"id"` // the sandbox's id, a slash, and Name
	SandboxID string       `json:"sandboxId"`
	Name      string       `json:"name"`
	Shell     string       `json:"shell"` // the program's path, inside
	PID       int          `json:"pid"`   // of the shell, inside; 0 between two shells
	State     SessionState `json:"state"`
	Cwd       string       `json:"cwd"`
	CreatedAt time.Time    `json:"createdAt"`
	UsedAt    time.Time    `json:"usedAt"`   // when a command last began or ended
	Commands  int64        `json:"commands"` // how many were run
	Waiting   int          `json:"waiting"`  // how many wait for their turn
	Jobs      int          `json:"jobs"`     // background jobs that run
	Restarts  int          `json:"restarts"` // how often the shell had to be replaced
	// Terminal is the session's terminal whose shell runs, or nil.
	Terminal *TerminalState `json:"terminal,omitempty"`
}

// A TerminalState describes a session's terminal. Offsets count the bytes that it has printed.
type TerminalState struct {
	Start   uint64 `json:"start"` // of the oldest byte that is kept
	End     uint64 `json:"end"`
	Viewers int    `json:"viewers"` // how many are attached
}

// A SessionState says what a session is doing.
type SessionState string

// The states of a session.
const (
	SessionIdle    SessionState = "idle"
	SessionRunning SessionState = "running"
	// its shell has ended; the next command starts a new one with its state
	SessionEnded SessionState = "ended"
)

// A SessionStatus is the state of a session after a command.
type SessionStatus struct {
	// Cwd is where the session is after the command.
	Cwd string `json:"cwd"`
	// Ended says that the shell ended with the command, or had to be killed. The next
	// command runs in a new shell.
	Ended bool `json:"ended"`
	// Restored is set in the first result of a new shell: how much of its predecessor's
	// state it has, "full", "partial" or "none".
	Restored string `json:"restored,omitempty"`
	// ShellCode is the status that the shell reported for a command that timed out; nil if
	// it reported none.
	ShellCode *int `json:"shellCode,omitempty"`
	// StatusLost says that the command's status is unknown. The exit code is then 125.
	StatusLost bool `json:"statusLost,omitempty"`
	// WantedTerminal says that the command waited for keys of a terminal, which it did not
	// have, and was ended for that.
	WantedTerminal bool `json:"wantedTerminal,omitempty"`
}

// An AttachRequest says how to attach.
type AttachRequest struct {
	Rows, Cols uint16 // the terminal's size from now on, for all that are attached
	// Offset is the first byte of earlier output to show again, as far as it is kept.
	// FromEnd shows new output only.
	Offset uint64
	// Takeover detaches all others.
	Takeover bool
	// Create is as in [Command].
	Create bool
}

// FromEnd is an [AttachRequest].Offset.
const FromEnd = 1<<64 - 1

// A Terminal is a connection to a session's terminal. It is a Process whose Close detaches,
// and whose Result says how the shell ended.
type Terminal interface {
	Process
	// Start is the offset of the first byte of Stdout, and End that of the first byte of new
	// output: the bytes between them are shown again.
	Start() uint64
	End() uint64
	// Detached reports, after Wait, whether the shell continues because another caller took
	// over.
	Detached() bool
}

// A Job is a command that a session runs in the background. Offsets count the bytes written
// since its start.
type Job struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Session   string    `json:"session"`
	Command   string    `json:"command"` // the beginning of the command that started it
	State     string    `json:"state"`   // running, stopped, ended
	PIDs      []int     `json:"pids"`    // inside
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	ExitCode  *int      `json:"exitCode,omitempty"` // nil if unknown
	Stdout    JobStream `json:"stdout"`
	Stderr    JobStream `json:"stderr"`
}

// A JobStream says which bytes of a job's stream are kept.
type JobStream struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}
