package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/ops"
	"wolffia/perm"
	"wolffia/runtime"
)

// A call is one call of a tool.
type call struct {
	*Server
	req   *sdk.CallToolRequest
	begin time.Time
	box   *attempt
	big   *big // nil: the call came in a small message
}

func (c *call) id() string { return c.box.id }

func (c *call) session() runtime.SessionID { return runtime.SessionIn(c.box.id, c.Session) }

// A reply is what a tool returns for reading, beside the structured output.
type reply struct {
	text  string
	image *sdk.ImageContent
}

// tool adds a tool that works in the sandbox. Many clients give a model the structured output and
// nothing else: it has what the text has. It is nil where only the text, or the image, counts. It has
// no schema, which clients do not need and would be a half of tools/list.
func tool[In, Out any](s *Server, t *sdk.Tool, do func(c *call, ctx context.Context, in In) (reply, *Out, error)) {
	t.InputSchema = schema[In]()
	s.sdk.AddTool(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res := &sdk.CallToolResult{}
		c := &call{Server: s, req: req, begin: time.Now(), big: s.bigOf(req)}
		in, err := decodeArgs[In](req.Params.Arguments)
		req.Params.Arguments = nil // its memory
		if c.big != nil && c.big.text == nil {
			c.big.leave()
		}
		if err != nil {
			res.SetError(err)
			return res, nil
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(s.ctx, cancel)
		defer stop()
		if err := c.open(ctx); err != nil {
			if errors.Is(err, context.Canceled) && s.ctx.Err() != nil {
				err = context.Cause(s.ctx)
			}
			res.SetError(fmt.Errorf("the sandbox was not started: %w", err))
			return res, nil
		}
		r, out, err := do(c, ctx, in)
		if err != nil {
			res.SetError(c.explain(ctx, err))
			return res, nil
		}
		res.Content = []sdk.Content{&sdk.TextContent{Text: r.text}}
		if r.image != nil {
			res.Content = append(res.Content, r.image)
		}
		if out != nil {
			res.StructuredContent = out
		}
		return res, nil
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
	case gone == nil && s.State.Runs():
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

// A denied is a [runtime.Denial] whose Source is From, and whose Allow is a command with which the user can allow it.
type denied struct {
	runtime.Denial
	From string `json:"from,omitempty" jsonschema:"where the rule comes from"`
}

// told returns a result without what the client must not know.
func (c *call) told(r *runtime.Result) *runtime.Result {
	if c.Remote {
		return ops.WithoutHost(r)
	}
	return r
}

// denials returns the denials of a result.
func (c *call) denials(r *runtime.Result) (list []denied) {
	for _, d := range c.told(r).Denied {
		x := denied{d, d.Source}
		if x.Source = ""; d.Allow != "" {
			x.Allow = c.Allow(c.id()) + d.Allow
		}
		list = append(list, x)
	}
	return list
}

// refusals returns the network's refusals of a result, whose Allow is a command.
func (c *call) refusals(r *runtime.Result) (list []runtime.Refusal) {
	for _, x := range c.told(r).Refused {
		if x.Allow != "" {
			x.Allow = c.AllowHost(c.id()) + x.Allow
		}
		list = append(list, x)
	}
	return list
}

// maxDeniedLines is how many denials, and how many refusals, the text of a result has.
const maxDeniedLines = 5

// lines writes a line for each of the first elements of a list; more is how many others there are.
func lines[T any](b *strings.Builder, list []T, more int, line func(*T) string, rest string) {
	for i := range list {
		if i == maxDeniedLines {
			more += len(list) - i
			break
		}
		b.WriteString(line(&list[i]) + "\n")
	}
	if more > 0 {
		fmt.Fprintf(b, rest, more)
	}
}

// deniedLine is one line about a denial.
func deniedLine(d *denied) string {
	by := "since no rule matches"
	if d.Rule != "" {
		by = fmt.Sprintf("by rule %q", d.Rule)
		if d.From != "" {
			by += " of " + d.From
		}
	}
	s := fmt.Sprintf("denied %s: %s %s", by, d.Op, d.Path)
	if d.Reason != "" {
		s += ": " + d.Reason
	}
	return s + toAllow(perm.ToAllow(d.From), d.Allow)
}

// refusedLine is one line about a refusal of the network.
func refusedLine(r *runtime.Refusal) string {
	return fmt.Sprintf("refused by the network: %s %s: %s", r.Op, r.Host(), r.Reason) + toAllow(perm.ToAllow(""), r.Allow)
}

func toAllow(words, command string) string {
	if command == "" {
		return ""
	}
	return "; " + words + ", the user can run: " + command
}

// reads are the hints about a tool that changes nothing.
func reads() *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
}
