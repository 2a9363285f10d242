package runtime

import (
	"io"
	"strings"
	"time"
)

// DefaultMaxOutput is how many bytes of each stream a [Result] keeps unless the command
// says otherwise.
const DefaultMaxOutput = 16 << 20

// A Command asks an [Executor] or a [SessionManager] for one command.
type Command struct {
	// Command is the program and its arguments, as they are: no shell. With Session it is one
	// text that the shell evaluates: any bytes but NUL, also several lines.
	Command []string `json:"command"`
	// Session is the name of a session of the sandbox, whose shell evaluates Command after
	// earlier commands have ended; empty: the program runs beside them.
	Session string `json:"session,omitempty"`
	// NoWait makes a busy session [ErrConflict] at once.
	NoWait bool `json:"noWait,omitempty"`
	// Create creates the session, with the default configuration, if it does not exist.
	// Without Create, that is [ErrNotFound].
	Create bool `json:"create,omitempty"`
	// Operation, unless empty, names a command in a session that outlives its caller: see
	// [SessionManager]. It is formed like the name of a session.
	Operation string `json:"operation,omitempty"`
	// Env is added to the environment of the sandbox or session, for this command only; a
	// variable given here wins. See [CheckEnv].
	Env map[string]string `json:"env,omitempty"`
	// Cwd is the working directory inside, for this command only. Empty: SandboxConfig.Cwd, from
	// which a relative one is taken, or where the session is. In a session it must be absolute.
	Cwd string `json:"cwd,omitempty"`
	// User is the user inside that the command runs as, in a sandbox with Root: NAME or UID, also
	// with :GROUP. Empty: SandboxConfig.RunAs. In another sandbox it is an error. A Session of
	// another user is [ErrConflict].
	User string `json:"user,omitempty"`
	// Keep, unless empty, has a process of StartProcess outlive its caller, and the memory of
	// the sandbox that it is in: see [Kept]. It is a text that Kept returns then, of at most
	// MaxKeep bytes. Close kills such a process too.
	Keep string `json:"keep,omitempty"`
	// Adopt has StartProcess return a process that Kept has returned, by its PID, and its
	// output from now on. All other fields but Started are then unused. One that has ended,
	// or has a caller again, is [ErrNotFound].
	Adopt int `json:"adopt,omitempty"`
	// Stdin is the command's standard input; nil means none. If reading it fails the command
	// is killed, in a session interrupted as when ctx ends, and the error wraps the reader's.
	// StartProcess has OpenStdin instead.
	Stdin io.Reader `json:"-"`
	// OpenStdin says that Stdin of the [Process] will be written.
	OpenStdin bool `json:"openStdin,omitempty"`
	// Merge sends standard error to where standard output goes, as ExecStream does always.
	Merge bool `json:"merge,omitempty"`
	// TTY gives the command a terminal of Rows x Cols, in a session the session's own; its
	// output is on Stdout. Zero Rows or Cols leave the size unset.
	TTY  bool   `json:"tty,omitempty"`
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	// Timeout ends the command and all that it started, and counts from when the command
	// begins. In a session it interrupts the command, then ends it, and keeps the session; it
	// counts from when the command has its turn. 0 means never.
	Timeout time.Duration `json:"timeout,omitempty"`
	// MaxOutput is how many bytes of each stream the [Result] keeps; 0 means
	// [DefaultMaxOutput]. The rest is counted and dropped.
	MaxOutput int `json:"maxOutput,omitempty"`
	// TailOutput is how many of these bytes are from the end of the stream. What is dropped
	// is then in the middle, after MaxOutput-TailOutput bytes. 0 keeps the beginning only.
	// More than MaxOutput is ErrInvalid.
	TailOutput int `json:"tailOutput,omitempty"`
	// Queued, if not nil, may be called, with true when a command in a session waits for
	// others, and then with false when it has its turn. Without Session it is called with
	// false when the program runs. It must not block.
	Queued func(waits bool) `json:"-"`
	// Started, if not nil, is called once when the program runs, with its process id inside, which is the sandbox's word.
	// Without a Session it is. It must not block.
	Started func(pid int) `json:"-"`
}

// ExecRequest and SessionExecRequest are other names of [Command].
type (
	ExecRequest        = Command
	SessionExecRequest = Command
)

// Check returns why no runtime can run the command, or nil. process says that it is for
// [Executor].StartProcess. The error is of class [ErrInvalid].
func (c *Command) Check(process bool) error {
	switch {
	case (c.Keep != "" || c.Adopt != 0) && (!process || c.Session != ""):
		return Errorf(ErrInvalid, "Keep, Adopt: they are for StartProcess, without a session")
	case len(c.Keep) > MaxKeep:
		return Errorf(ErrInvalid, "Keep: more than %d bytes", MaxKeep)
	case c.Adopt != 0:
		return nil
	case len(c.Command) == 0:
		return Errorf(ErrInvalid, "no command given")
	case c.Timeout < 0:
		return Errorf(ErrInvalid, "timeout %v: it must not be negative", c.Timeout)
	case process && c.Stdin != nil:
		return Errorf(ErrInvalid, "Stdin: a process has no reader as its input: set OpenStdin, and write to its Stdin")
	case !process && c.OpenStdin:
		return Errorf(ErrInvalid, "OpenStdin: only StartProcess returns what can be written to: set Stdin")
	case c.Session == "" && c.Operation != "":
		return Errorf(ErrInvalid, "operation %q: only a command in a session can be one", c.Operation)
	}
	for i, arg := range c.Command {
		if strings.Contains(arg, "\x00") {
			return Errorf(ErrInvalid, "argument %d of the command contains a NUL, which no program can have", i)
		}
	}
	if strings.Contains(c.User, "\x00") {
		return Errorf(ErrInvalid, "user: it contains a NUL")
	}
	return CheckEnv(c.Env)
}

// OutputLimits returns the number of bytes to keep of each stream, and how many of them are
// from its end. The error is of class [ErrInvalid].
func (c *Command) OutputLimits() (keep, tail int, err error) {
	keep = c.MaxOutput
	if keep <= 0 {
		keep = DefaultMaxOutput
	}
	if c.TailOutput < 0 || c.TailOutput > keep {
		return 0, 0, Errorf(ErrInvalid, "tail of %d bytes of output: it must be from 0 to the %d bytes that are kept", c.TailOutput, keep)
	}
	return keep, c.TailOutput, nil
}
