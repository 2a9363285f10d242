//go:build !small

package serving

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/asker"
	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/mcp"
	"wolffia/runtime"
)

// serve serves the client on standard input and output until it has ended.
func (m *mcpServer) serve(cmd *cobra.Command) error {
	h := m.Host
	if name := m.flags.Text("name"); name != "" {
		return usage.Errorf(cmd, "--name is for sandboxes that stay: use --sandbox %s", name)
	}
	if h.Typed() {
		return usage.Errorf(cmd, "standard input is a terminal, and an MCP client speaks JSON: configure a client, as with: claude mcp add wolffia -- wolffia mcp")
	}
	out := h.Out // only the protocol goes there
	h.Out = &console.Output{File: h.Err.File}
	h.Umask = nil
	var err error
	if m.rt, err = h.Open(m.flags.Text("runtime")); err != nil {
		return err
	}
	m.describe(cmd)
	s := mcp.New(&mcp.Options{
		Copied: m.copied(cmd.Context()), Runtime: m.rt, Open: m.open, Session: m.session, Version: h.Version, Allow: h.AddTo, AllowHost: h.AllowTo,
		Ended: func(ctx context.Context, id string, command *runtime.Command, exit runtime.Result, notes []string) {
			attach.New(h, m.rt).Remember(ctx, id, command, &exit, notes...)
		},
		Answer: func(ctx context.Context, id string, q *runtime.Question, a *runtime.Answer) error {
			_, err := asker.Answer(ctx, h, m.rt, id, q, a)
			return err
		},
		Inspect: func(ctx context.Context, id string) (*mcp.Details, error) {
			d, err := m.rt.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			return &mcp.Details{Config: d.Config, Limits: d.Limits}, nil
		},
	})
	if err = s.Serve(cmd.Context(), h.In, out); errors.Is(err, console.ErrBroken) {
		err = nil // the client has ended
	}
	return h.Alongside(err, m.end(cmd.Context()))
}
