package main

import (
	"bufio"
	"context"
	"encoding/json"
	"time"

	"wolffia/internal/excerpt"
	"wolffia/internal/jsontext"
	"wolffia/local"
	"wolffia/runtime"
)

// A commandResult is what --json prints of a command. Its streams are written apart,
// behind the first part.
type commandResult struct {
	commandEnd
	stdout, stderr []byte
	commandMore
}

// A commandEnd is the first part of a commandResult.
type commandEnd struct {
	SandboxID string `json:"sandboxId"`
	ExitCode  int    `json:"exitCode"` // that of our own process
	Signal    int    `json:"signal"`
	TimedOut  bool   `json:"timedOut"`
}

// A commandMore is the last part of a commandResult.
type commandMore struct {
	StdoutDropped int64 `json:"stdoutDropped"`
	StderrDropped int64 `json:"stderrDropped"`
	DurationMS    int64 `json:"durationMs"`
	// OutOfMemory says that it failed, and that the kernel had killed for --memory.
	OutOfMemory bool `json:"outOfMemory,omitempty"`
	// Denied is what the rules have denied while it ran, and DeniedMore how many other
	// denials there were.
	Denied     []runtime.Denial `json:"denied,omitempty"`
	DeniedMore int              `json:"deniedMore,omitempty"`
	// Refused is what the network has refused while it ran, and RefusedMore how many other
	// refusals there were.
	Refused     []runtime.Refusal `json:"refused,omitempty"`
	RefusedMore int               `json:"refusedMore,omitempty"`
	// Git are lines about what crossed by git while it ran, and what did not.
	Git []string `json:"git,omitempty"`
	// GitPending is why something of git's stays inside that would be lost with the sandbox.
	GitPending string `json:"gitPending,omitempty"`
	// Hint says how to let it reach a name that it has looked up without a network.
	Hint string `json:"hint,omitempty"`
	// Limits says what keeps the limits of a new sandbox, for run.
	Limits *runtime.LimitsState `json:"limits,omitempty"`
	// StartError says why there was nothing to run; then ExitCode is 125 to 127.
	StartError string `json:"startError,omitempty"`
	// Session says what became of the session, for exec --session.
	Session *sessionResult `json:"session,omitempty"`
}

// A sessionResult is a session's status, whose directory need not be UTF-8.
type sessionResult struct {
	*runtime.SessionStatus
	CwdBytes []byte `json:"cwdBytes,omitempty"`
}

// encode writes r as one line of JSON.
func (r *commandResult) encode(w *bufio.Writer) error {
	head, err := json.Marshal(r.commandEnd)
	if err != nil {
		return err
	}
	rest, err := json.Marshal(r.commandMore)
	if err != nil {
		return err
	}
	_, _ = w.Write(append(head[:len(head)-1], ',')) // Flush tells of errors
	if err := jsontext.WriteField(w, "stdout", r.stdout); err != nil {
		return err
	}
	_ = w.WriteByte(',')
	if err := jsontext.WriteField(w, "stderr", r.stderr); err != nil {
		return err
	}
	_ = w.WriteByte(',')
	_, _ = w.Write(append(rest[1:], '\n'))
	return w.Flush()
}

// execJSON runs a command to its end and prints the whole result. create says that this
// command line describes the sandbox.
func (a *app) execJSON(ctx context.Context, rt *local.Runtime, ref string, create bool, spec *runtime.ProcessSpec) error {
	begin := time.Now()
	box := lookUp(ctx, rt, ref)
	id := box.ID
	var limits *runtime.LimitsState
	if create {
		limits = rt.Limits(id)
	}
	stdout, stderr := excerpt.New(runtime.DefaultMaxOutput, 0), excerpt.New(runtime.DefaultMaxOutput, 0)
	watch, w := watchOutput(box, stdout, stderr)
	exit, err := a.attach(ctx, rt, id, spec, w[0], w[1])
	out := &commandResult{commandEnd: commandEnd{SandboxID: id}, commandMore: commandMore{Limits: limits}}
	if failed, ok := asStartError(a.explain(ctx, rt, id, create, spec, err)); ok {
		out.ExitCode, out.StartError = failed.Code, failed.Message
	} else if err != nil {
		return err
	} else {
		out.ExitCode, out.Signal, out.TimedOut, out.OutOfMemory = codeFor(exit), int(exit.Signal), exit.TimedOut, exit.OutOfMemory
		if l := rt.Limits(id); create && exit.OutOfMemory && l != nil {
			out.Limits = l // with the processes that were killed meanwhile
		}
		out.Hint = watch.hint(out.ExitCode, create)
		out.stdout, out.StdoutDropped = stdout.Result()
		out.stderr, out.StderrDropped = stderr.Result()
		if d := exit.Denied; d != nil {
			out.Denied, out.DeniedMore = d.List, d.More
		}
		if r := exit.Refused; r != nil {
			out.Refused, out.RefusedMore = r.List, r.More
		}
		if g := exit.Git; g != nil {
			out.Git, out.GitPending = g.Lines, g.Pending
		}
		if s := exit.Session; s != nil {
			out.Session = &sessionResult{s, jsontext.Exact(s.Cwd)}
		}
	}
	out.DurationMS, a.printed = time.Since(begin).Milliseconds(), true
	if err := out.encode(bufio.NewWriter(a.out)); err != nil {
		return err
	}
	return exitWith(out.ExitCode)
}
