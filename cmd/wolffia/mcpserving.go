//go:build !small

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/mcp"
)

// serve serves the client on standard input and output until it has ended.
func (m *mcpServer) serve(cmd *cobra.Command) error {
	a := m.app
	if name := m.box.Text("name"); name != "" {
		return usageError(cmd, "--name is for sandboxes that stay: use --sandbox %s", name)
	}
	if term.IsTerminal(int(a.in.Fd())) {
		return usageError(cmd, "standard input is a terminal, and an MCP client speaks JSON: configure a client, as with: claude mcp add wolffia -- wolffia mcp")
	}
	out := a.out // only the protocol goes there
	a.out = &output{file: a.err.file}
	var err error
	if m.rt, err = a.open(m.box.Text("runtime")); err != nil {
		return err
	}
	m.describe(cmd)
	s := mcp.New(&mcp.Options{
		Copied: m.copied(cmd.Context()), Runtime: m.rt, Open: m.open, Session: m.session, Version: version, Allow: a.addTo, AllowHost: a.allowTo,
		Inspect: func(ctx context.Context, id string) (*mcp.Details, error) {
			d, err := m.rt.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			return &mcp.Details{Config: d.Config, Limits: d.Limits}, nil
		},
	})
	if err = s.Serve(cmd.Context(), a.in, out); errors.Is(err, errBroken) {
		err = nil // the client has ended
	}
	return a.alongside(err, m.end(cmd.Context()))
}
