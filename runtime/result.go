package runtime

import (
	"syscall"
	"time"
)

// A Result is how a command ended and, unless it is from a [Process], its output. Its JSON is
// what all front ends have of it; package ops writes it, and the output and Duration with it.
type Result struct {
	// ExitCode is the command's exit code, or 128+n if signal n killed it.
	ExitCode int `json:"exitCode"`
	// Signal is the signal that killed it, or 0.
	Signal syscall.Signal `json:"signal"`
	// TimedOut says that the command's Timeout ended it. Output before that is kept. If the
	// sandbox does not answer, the command may still run.
	TimedOut bool `json:"timedOut"`

	Stdout []byte `json:"-"`
	Stderr []byte `json:"-"`
	// StdoutDropped and StderrDropped count the bytes beyond MaxOutput.
	StdoutDropped int64 `json:"stdoutDropped"`
	StderrDropped int64 `json:"stderrDropped"`
	// StdoutEnd and StderrEnd are, of a JobOutput, the offsets behind the last bytes that it has
	// sent.
	StdoutEnd uint64 `json:"-"`
	StderrEnd uint64 `json:"-"`
	// Duration is the time from the request to the end of the output.
	Duration time.Duration `json:"-"`

	// OutOfMemory says that it failed, and that while it ran the kernel killed a process of
	// the sandbox because of Resources.Memory. It is never set in an engine.
	OutOfMemory bool `json:"outOfMemory,omitempty"`
	// Denied is what the rules have denied while it ran, and DeniedMore is [Denials].More. With
	// an Operation that began before, it is what they have denied since this request.
	Denied     []Denial `json:"denied,omitempty"`
	DeniedMore int      `json:"deniedMore,omitempty"`
	// Refused is what the network has refused, as Denied.
	Refused     []Refusal `json:"refused,omitempty"`
	RefusedMore int       `json:"refusedMore,omitempty"`
	// Git is what crossed between the sandbox's repositories and the host's while it ran, and
	// what did not: [GitReport].Lines, and GitPending is its Pending.
	Git        []string `json:"git,omitempty"`
	GitPending string   `json:"gitPending,omitempty"`
	// Session is the state of the session after it; nil if it did not run in one.
	Session *SessionStatus `json:"session,omitempty"`
}

// ExecResult is another name of [Result].
type ExecResult = Result

// Truncated reports whether output was dropped.
func (r *Result) Truncated() bool { return r.StdoutDropped > 0 || r.StderrDropped > 0 }
