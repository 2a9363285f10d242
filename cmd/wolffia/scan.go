package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"wolffia/registry"
	"wolffia/sandbox"
)

func (a *app) scanCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "scan",
		Short: "List the running sandboxes that have an owner, and whose they are",
		Long: `List the running sandboxes that have an owner (see --owner of create), and whose
they are. It is read from the state directory; no service is needed. A sandbox
whose owner is not known in full is not in the list.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			found, err := sandbox.Scan(cmd.Context(), rt)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(append([]registry.Metadata{}, found...))
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "SANDBOX\tNAME\tORGANIZATION\tPROJECT\tUSER\tAGE\tGIT")
			for _, m := range found {
				git := "-"
				if m.GitConfigured {
					git = "configured"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.SandboxID, m.ContainerName,
					printable(m.OrganizationID), printable(m.ProjectID), printable(m.UserID), age(time.UnixMilli(m.CreatedAt)), git)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}
