package mcp

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/ops"
	"wolffia/runtime"
)

const (
	defaultTimeout = 2 * time.Minute
	quietTimeout   = 50 * time.Second // without progress, which resets the 60 s of most clients
	maxTimeout     = 24 * time.Hour
)

type bashIn struct {
	Command   string `json:"command" jsonschema:"what the shell evaluates; may have several lines"`
	Cwd       string `json:"cwd,omitempty" jsonschema:"working directory for this command only; empty: where the shell is"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" jsonschema:"interrupt the command after so many milliseconds, and keep the shell; default 120000, or 50000 if you take no progress, as clients then give up after 60 s. For what takes longer use bash_background"`
	MaxBytes  int    `json:"max_output_bytes,omitempty" jsonschema:"how many bytes of each stream the result has, half of them from its end; default 30000, at most 1000000"`
}

type bashOut struct {
	ExitCode    int      `json:"exit_code" jsonschema:"the command's; 124 if it has timed out; 128+n if signal n killed it"`
	Stdout      string   `json:"stdout"`
	Stderr      string   `json:"stderr"`
	Cwd         string   `json:"cwd" jsonschema:"where the shell is now"`
	StdoutBytes int64    `json:"stdout_bytes" jsonschema:"of the whole stream"`
	StderrBytes int64    `json:"stderr_bytes"`
	Truncated   bool     `json:"truncated,omitempty" jsonschema:"a part of stdout or stderr is left out: see output_id"`
	OutputID    string   `json:"output_id,omitempty" jsonschema:"for bash_output, which returns the rest"`
	TimedOut    bool     `json:"timed_out,omitempty"`
	DurationMS  int64    `json:"duration_ms"`
	Notes       []string `json:"notes,omitempty" jsonschema:"what else the caller should know"`
	Denied      []denied `json:"denied,omitempty" jsonschema:"what the rules have denied to the sandbox while the command ran"`
	DeniedMore  int      `json:"denied_more,omitempty" jsonschema:"how many other accesses were denied"`

	Refused     []runtime.Refusal `json:"refused,omitempty" jsonschema:"what the network has refused to the sandbox while the command ran; allow is a command with which the user can allow it, at once"`
	RefusedMore int               `json:"refused_more,omitempty" jsonschema:"how many others were refused"`

	Git        []string `json:"git,omitempty" jsonschema:"what crossed between git here and the user's repository while the command ran, if it was no plain move, and what did not"`
	GitPending string   `json:"git_pending,omitempty" jsonschema:"why something of git's stays here that would be lost with the sandbox"`
}

type bashOutputIn struct {
	ID       string `json:"output_id" jsonschema:"from a result of bash"`
	Stream   string `json:"stream,omitempty" jsonschema:"stdout, which is the default, or stderr"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"in bytes, from the stream's beginning"`
	MaxBytes int    `json:"max_bytes,omitempty" jsonschema:"default 30000, at most 1000000"`
}

type bashOutputOut struct {
	Text  string `json:"text"`
	From  int64  `json:"from" jsonschema:"offset of the first byte; larger than asked for if the bytes before were not kept"`
	Next  int64  `json:"next" jsonschema:"offset at which to go on"`
	Total int64  `json:"total" jsonschema:"bytes of the whole stream"`
	Note  string `json:"note,omitempty"`
}

func (s *Server) addShell() {
	tool(s, &sdk.Tool{
		Name: "bash", Title: "Run a command",
		Description: "Evaluate a command in the sandbox's shell. Directory, variables and functions stay for the next call. " +
			"Commands run one after the other; standard input is empty, and there is no terminal. The output is bounded: its beginning and its end are returned, and bash_output has the rest.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: new(false)},
	}, (*call).bash)
	tool(s, &sdk.Tool{
		Name: "bash_output", Title: "Read more of a command's output",
		Description: "Return a part of the output of a command of bash whose result was truncated. The first and the last 2 MiB of each stream are kept, of the last commands.",
		Annotations: reads(),
	}, (*call).bashOutput)
}

// timeLimit returns a duration for the milliseconds that a call asks for.
func (c *call) timeLimit(asked int64) (time.Duration, error) {
	byDefault := defaultTimeout
	if c.req.Params.GetProgressToken() == nil {
		byDefault = quietTimeout
	}
	ms, err := count("timeout_ms", asked, byDefault.Milliseconds(), maxTimeout.Milliseconds())
	return time.Duration(ms) * time.Millisecond, err
}

func (c *call) bash(ctx context.Context, in bashIn) (reply, *bashOut, error) {
	if strings.TrimSpace(in.Command) == "" {
		return reply{}, nil, fmt.Errorf("command is empty")
	}
	most, err := count("max_output_bytes", in.MaxBytes, DefaultOutput, MaxOutput)
	if err != nil {
		return reply{}, nil, err
	}
	limit, err := c.timeLimit(in.TimeoutMS)
	if err != nil {
		return reply{}, nil, err
	}
	dir, err := c.dir(ctx, in.Cwd)
	if err != nil {
		return reply{}, nil, err
	}
	stdout, stderr := newCapture(), newCapture()
	waits := make(chan bool, 1)
	notes := c.progress(ctx, func() string {
		select {
		case <-waits:
			return "the command waits until earlier commands have ended"
		default:
		}
		if line := stdout.lastLine(); line != "" {
			return line
		}
		return stderr.lastLine()
	})
	defer notes.stop()
	stdout.news, stderr.news = notes.news, notes.news
	command := &runtime.Command{
		Command: []string{in.Command}, Session: c.Session, Create: true, Cwd: dir, Timeout: limit,
		Queued: func(queued bool) {
			if queued {
				select {
				case waits <- true:
				default:
				}
				notes.news()
			}
		},
	}
	result, err := ops.Run(ctx, c.Runtime, c.id(), command, ops.To(stdout), ops.To(stderr))
	if err != nil {
		return reply{}, nil, err
	}
	r, out := c.bashResult(ctx, result, stdout, stderr, most, limit)
	if c.Ended != nil {
		exit := *result
		exit.ExitCode = out.ExitCode
		c.Ended(ctx, c.id(), command, exit, out.Notes)
	}
	return r, out, nil
}

// dir returns the working directory that a command in the session is to have, absolute; empty if it
// is where the shell is.
func (c *call) dir(ctx context.Context, cwd string) (string, error) {
	if cwd == "" || path.IsAbs(cwd) {
		return cwd, nil
	}
	d, err := c.Inspect(ctx, c.id())
	if err != nil {
		return "", err
	}
	return path.Join(workingDir(&d.Config), cwd), nil
}

// bashResult returns the result of a command that has ended.
func (c *call) bashResult(ctx context.Context, exit *runtime.Result, stdout, stderr *capture, most int, limit time.Duration) (reply, *bashOut) {
	o, e := stdout.extract(most), stderr.extract(most)
	denied, refused := c.denials(exit), c.refusals(exit)
	out := &bashOut{
		ExitCode: exit.ExitCode, StdoutBytes: o.total, StderrBytes: e.total, TimedOut: exit.TimedOut,
		DurationMS: exit.Duration.Milliseconds(), Truncated: o.to > 0 || e.to > 0, Notes: ops.Notes(exit),
		Denied: denied, DeniedMore: exit.DeniedMore, Refused: refused, RefusedMore: exit.RefusedMore,
		GitPending: valid([]byte(exit.GitPending)),
	}
	for _, line := range exit.Git {
		out.Git = append(out.Git, valid([]byte(line)))
	}
	if exit.TimedOut {
		out.ExitCode = 124
		out.Notes = append([]string{fmt.Sprintf("timed out: the command did not end within %v and was interrupted; the shell is still there. Set a larger timeout_ms, or use bash_background", limit)}, out.Notes...)
	}
	if s := exit.Session; s != nil {
		out.Cwd = valid([]byte(s.Cwd))
	}
	note := func(stream string, x *extract) string { return "" }
	if out.Truncated {
		out.OutputID = c.outputs.add(c.Server, stdout, stderr)
		note = func(stream string, x *extract) string {
			return fmt.Sprintf(": bash_output with output_id %s, stream %s, offset %d returns them", out.OutputID, stream, x.from)
		}
	}
	out.Stdout, out.Stderr = o.text(note("stdout", &o)), e.text(note("stderr", &e))
	if exit.ExitCode != 0 {
		root := func() bool {
			d, err := c.Inspect(ctx, c.id())
			return err == nil && d.Config.Root
		}
		if hint := ops.KernelHint(out.Stderr+"\n"+out.Stdout, root); hint != "" {
			out.Notes = append(out.Notes, hint)
		}
	}
	return reply{text: out.text()}, out
}

// text returns the result for a client that reads no structured one.
func (o *bashOut) text() string {
	var b strings.Builder
	b.WriteString(o.Stdout)
	if o.Stderr != "" {
		endLine(&b)
		b.WriteString("[stderr]\n" + o.Stderr)
	}
	endLine(&b)
	fmt.Fprintf(&b, "[exit code %d, cwd %s]\n", o.ExitCode, o.Cwd)
	for _, n := range o.Notes {
		b.WriteString("[" + n + "]\n")
	}
	lines(&b, o.Denied, o.DeniedMore, deniedLine, "%d more accesses were denied\n")
	lines(&b, o.Refused, o.RefusedMore, refusedLine, "%d more were refused by the network\n")
	for _, line := range o.Git {
		b.WriteString("[git: " + line + "]\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// endLine ends the last line of b, if it has not ended.
func endLine(b *strings.Builder) {
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
}

func (c *call) bashOutput(_ context.Context, in bashOutputIn) (reply, *bashOutputOut, error) {
	most, err := count("max_bytes", in.MaxBytes, DefaultOutput, MaxOutput)
	if err != nil {
		return reply{}, nil, err
	}
	x := c.outputs.get(c.Server, in.ID)
	if x == nil {
		return reply{}, nil, fmt.Errorf("output %q is not kept, or never was: run the command again, and write its output to a file if it is long", in.ID)
	}
	stream := x.stdout
	switch in.Stream {
	case "", "stdout":
	case "stderr":
		stream = x.stderr
	default:
		return reply{}, nil, fmt.Errorf("stream %q: it must be stdout or stderr", in.Stream)
	}
	from, b := stream.read(in.Offset, most)
	total := stream.size()
	if from+int64(len(b)) < total {
		if n := wholeEnd(b); n > 0 {
			b = b[:n]
		}
	}
	out := &bashOutputOut{Text: valid(b), From: from, Next: from + int64(len(b)), Total: total}
	text := out.Text
	if from > in.Offset && in.Offset < total {
		out.Note = fmt.Sprintf("%d bytes before this were not kept", from-in.Offset)
		text = bracketed(out.Note) + "\n" + text
	}
	return reply{text: text + fmt.Sprintf("\n[bytes %d to %d of %d]", out.From, out.Next, out.Total)}, out, nil
}
