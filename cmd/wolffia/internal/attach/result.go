package attach

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/hint"
	"wolffia/internal/excerpt"
	"wolffia/ops"
	"wolffia/runtime"
)

// A commandNote is what --json prints of a command beside its result, whose exit code is that of
// our own process.
type commandNote struct {
	// Hint says how to let it reach a name that it has looked up without a network.
	Hint string `json:"hint,omitempty"`
	// Limits says what keeps the limits of a new sandbox, for run.
	Limits *runtime.LimitsState `json:"limits,omitempty"`
	// Report is what an agent has done.
	Report any `json:"report,omitempty"`
	// StartError says why there was nothing to run; then the exit code is 125 to 127.
	StartError string `json:"startError,omitempty"`
}

// ExecJSON runs a command to its end and prints the whole result. create says that this
// command line describes the sandbox.
func (c *Client) ExecJSON(ctx context.Context, ref string, create bool, spec *runtime.Command) error {
	begin := time.Now()
	sb := lookUp(ctx, c.rt, ref)
	id := sb.ID
	var note commandNote
	if create {
		note.Limits = c.rt.Limits(id)
	}
	stdout, stderr := excerpt.New(runtime.DefaultMaxOutput, 0), excerpt.New(runtime.DefaultMaxOutput, 0)
	watch, w := hint.WatchOutput(sb, spec.Command, stdout, stderr)
	r, err := c.attach(ctx, id, spec, w[0], w[1])
	if failed, ok := errors.AsType[*runtime.StartError](hint.Explain(ctx, c.Host, c.rt, id, create, spec, err)); ok {
		r.ExitCode, note.StartError = failed.Code, failed.Message
	} else if err != nil {
		return err
	} else {
		r.ExitCode = console.CodeFor(r)
		if l := c.rt.Limits(id); create && r.OutOfMemory && l != nil {
			note.Limits = l // with the processes that were killed meanwhile
		}
		note.Hint = watch.Hint(r.ExitCode, create)
		r.Stdout, r.StdoutDropped = stdout.Result()
		r.Stderr, r.StderrDropped = stderr.Result()
	}
	c.remember(sb, begin, spec, &r, append(allDenied(c.Host, &r, id, create), note.Hint, note.StartError, endNote(&r, spec))...)
	r.Duration, c.Printed = time.Since(begin), true
	if c.Report != nil {
		note.Report = c.Report()
	}
	if err := printResult(c.Out, sb, &r, note); err != nil {
		return err
	}
	return console.ExitWith(r.ExitCode)
}

// printResult prints what --json has of a command in a sandbox.
func printResult(w io.Writer, sb *runtime.Sandbox, r *runtime.Result, note commandNote) error {
	out := bufio.NewWriter(w)
	err := ops.WriteResult(out, struct {
		SandboxID string `json:"sandboxId"`
		Codebase  string `json:"codebase,omitempty"`
	}{sb.ID, sb.CodebasePath}, r, note)
	_ = out.WriteByte('\n') // Flush returns its error
	return errors.Join(err, out.Flush())
}
