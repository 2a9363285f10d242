package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/service"
	"wolffia/service/registry"
)

// A scanned sandbox is what --json prints of one.
type scanned struct {
	registry.Metadata
	Lost bool `json:"lost,omitempty"` // an engine has it, the state directory does not
}

func scanCommand(h *host.Host) *cobra.Command {
	var f console.Format
	var backend string
	cmd := &cobra.Command{
		Use:   "scan",
		Short: "List the running sandboxes that have an owner, and whose they are",
		Long: `List the running sandboxes that have an owner (see --owner of create), and whose
they are. The state directory says so; no service is needed. A sandbox with
incomplete owner labels is not in the list.

Engines that sandboxes are in are asked too; with --runtime docker, also the one
that a new sandbox would be in. A sandbox that an engine has and the
state directory does not is listed as lost: it cannot be used, and wolffia rm ID
removes it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := h.Open(backend)
			if err != nil {
				return err
			}
			found, err := service.Scan(cmd.Context(), rt)
			if err != nil {
				return err
			}
			all := []scanned{}
			for _, m := range found {
				all = append(all, scanned{Metadata: m})
			}
			lost, unknown := service.Lost(cmd.Context(), rt)
			for _, m := range lost {
				all = append(all, scanned{Metadata: m, Lost: true})
			}
			if unknown != nil && backend == "" { // the user did not ask for engines
				h.Warn("%v", unknown)
				unknown = nil
			}
			t := console.Table[scanned]{
				Head: "SANDBOX\tNAME\tORGANIZATION\tPROJECT\tUSER\tAGE\tGIT\tSTATE",
				Row: func(m scanned) []any {
					git, state := "-", "running"
					if m.GitConfigured {
						git = "configured"
					}
					if m.Lost {
						state = "lost"
					}
					return []any{
						m.SandboxID, console.Printable(m.ContainerName), console.Printable(m.OrganizationID), console.Printable(m.ProjectID), console.Printable(m.UserID),
						console.Age(time.UnixMilli(m.CreatedAt)), git, state,
					}
				},
			}
			return errors.Join(t.Print(h.Console, f, all), unknown)
		},
	}
	cmd.Flags().StringVar(&backend, "runtime", "", "ask the engine that this runtime makes sandboxes in: docker")
	f.Flags(cmd, "")
	return cmd
}
