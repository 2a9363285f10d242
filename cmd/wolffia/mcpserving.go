//go:build !small

package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"wolffia/mcp"
)

// serve serves the client on standard input and output until it has ended.
func (m *mcpServer) serve(cmd *cobra.Command) error {
	a := m.app
	if m.box.name != "" {
		return usageError(cmd, "--name is for sandboxes that stay: use --sandbox %s", m.box.name)
	}
	if term.IsTerminal(int(a.in.Fd())) {
		return usageError(cmd, "standard input is a terminal, and an MCP client speaks JSON: configure a client, as with: claude mcp add wolffia -- wolffia mcp")
	}
	// Only the protocol goes to standard output. By another descriptor: a write to 1 or 2 of
	// which the reader is gone would kill us before the sandbox has ended.
	fd, err := unix.FcntlInt(a.out.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), "standard output")
	defer out.Close()
	a.out = a.err
	if m.rt, err = a.open(m.box.runtime); err != nil {
		return err
	}
	m.describe(cmd)
	s := mcp.New(&mcp.Options{
		Copied: m.copied(cmd.Context()), Runtime: m.rt, Open: m.open, Session: m.session, Version: version, Allow: a.addTo,
		Inspect: func(ctx context.Context, id string) (*mcp.Details, error) {
			d, err := m.rt.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			return &mcp.Details{Config: d.Config, Limits: d.Limits}, nil
		},
	})
	err = s.Serve(cmd.Context(), a.in, out)
	return errors.Join(err, m.end(cmd.Context()))
}
