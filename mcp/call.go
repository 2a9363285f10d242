package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/ops"
	"wolffia/runtime"
)

// A call is one call of a tool.
type call struct {
	*Server
	req   *sdk.CallToolRequest
	begin time.Time
	box   *attempt
}

func (c *call) id() string { return c.box.id }

func (c *call) session() runtime.SessionID { return runtime.SessionIn(c.box.id, c.Session) }

// A reply is what a tool returns for reading, beside the structured output.
type reply struct {
	text  string
	image *sdk.ImageContent
}

// tool adds a tool that works in the sandbox.
func tool[In, Out any](s *Server, t *sdk.Tool, do func(c *call, ctx context.Context, in In) (reply, *Out, error)) {
	t.InputSchema, t.OutputSchema = schema[In](), schema[Out]()
	sdk.AddTool(s.sdk, t, func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, *Out, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(s.ctx, cancel)
		defer stop()
		c := &call{Server: s, req: req, begin: time.Now()}
		if err := c.open(ctx); err != nil {
			if errors.Is(err, context.Canceled) && s.ctx.Err() != nil {
				err = context.Cause(s.ctx)
			}
			return nil, nil, fmt.Errorf("the sandbox was not started: %w", err)
		}
		r, out, err := do(c, ctx, in)
		if err != nil {
			return nil, nil, c.explain(ctx, err)
		}
		res := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.text}}}
		if r.image != nil {
			res.Content = append(res.Content, r.image)
		}
		return res, out, nil
	})
}

// open waits until the sandbox is made. An image that has to be pulled takes long.
func (c *call) open(ctx context.Context) (err error) {
	wait := c.progress(ctx, func() string { return "the sandbox is being made" })
	defer wait.stop()
	c.box, err = c.sandbox.get(ctx)
	return err
}

// explain returns err, or that the sandbox has ended, if it has.
func (c *call) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || runtime.Class(err) == nil {
		return err
	}
	s, gone := c.Runtime.Get(ctx, c.id())
	switch {
	case gone == nil && s.State == runtime.StateRunning:
		return err
	case gone != nil && !errors.Is(gone, runtime.ErrNotFound):
		return err
	}
	c.sandbox.lose(c.box)
	why := "it was removed"
	if gone == nil {
		why = "its state is " + string(s.State)
		if s.Reason != "" {
			why += ": " + s.Reason
		}
	}
	return fmt.Errorf("the sandbox %s has ended (%s): its shell, jobs and files outside of the project are lost; the next call makes or starts one", c.id(), why)
}

// A denied is an access that the rules have denied.
type denied struct {
	Op    string `json:"op" jsonschema:"what was asked for: lookup (of a hidden file, which appears not to exist), read, write, create, ..."`
	Path  string `json:"path" jsonschema:"relative to the project's root"`
	Level string `json:"level" jsonschema:"what the rules give: none, view, read or write"`
	Rule  string `json:"rule,omitempty" jsonschema:"the rule that decided; empty if none matches"`
	From  string `json:"from,omitempty" jsonschema:"where the rule comes from"`
	Why   string `json:"why,omitempty"`
	Allow string `json:"allow,omitempty" jsonschema:"a command with which the user can allow it, at once"`
}

// denials returns the denials for a result, and lines of text about them.
func (c *call) denials(r *runtime.Result) (list []denied, lines string) {
	if c.Remote {
		r = ops.WithoutHost(r)
	}
	var b strings.Builder
	for i := range r.Denied {
		x := &r.Denied[i]
		y := denied{Op: x.Op, Path: x.Path, Level: x.Level.String(), Rule: x.Rule, From: x.Source, Why: x.Reason}
		if x.Allow != "" {
			y.Allow = c.Allow(c.id()) + x.Allow
		}
		list = append(list, y)
		if i < maxDeniedLines {
			b.WriteString(y.line() + "\n")
		}
	}
	if more := max(0, len(r.Denied)-maxDeniedLines) + r.DeniedMore; more > 0 {
		fmt.Fprintf(&b, "%d more accesses were denied\n", more)
	}
	return list, b.String()
}

// refusals returns the network's refusals for a result, and lines of text about them.
func (c *call) refusals(r *runtime.Result) (list []runtime.Refusal, lines string) {
	if c.Remote {
		r = ops.WithoutHost(r)
	}
	var b strings.Builder
	for i := range r.Refused {
		x := r.Refused[i]
		line := fmt.Sprintf("refused by the network: %s %s: %s", x.Op, x.Host(), x.Reason)
		if x.Allow != "" {
			x.Allow = c.AllowHost(c.id()) + x.Allow
			line += "; to allow it, the user can run: " + x.Allow
		}
		list = append(list, x)
		if i < maxDeniedLines {
			b.WriteString(line + "\n")
		}
	}
	if more := max(0, len(r.Refused)-maxDeniedLines) + r.RefusedMore; more > 0 {
		fmt.Fprintf(&b, "%d more were refused by the network\n", more)
	}
	return list, b.String()
}

// maxDeniedLines is how many denials, and how many refusals, the text of a result has.
const maxDeniedLines = 5

// line is one line about a denial.
func (d *denied) line() string {
	by := "since no rule matches"
	if d.Rule != "" {
		by = fmt.Sprintf("by rule %q", d.Rule)
		if d.From != "" {
			by += " of " + d.From
		}
	}
	s := fmt.Sprintf("denied %s: %s %s", by, d.Op, d.Path)
	if d.Why != "" {
		s += ": " + d.Why
	}
	if d.Allow != "" {
		s += "; to allow it, the user can run: " + d.Allow
	}
	return s
}

// reads are the hints about a tool that changes nothing.
func reads() *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
}
