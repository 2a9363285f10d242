package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"wolffia/runtime"
)

// A listing is what --json prints of a sandbox.
type listing struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Runtime   string            `json:"runtime"`
	State     runtime.State     `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	Labels    map[string]string `json:"labels"`
	CreatedAt int64             `json:"createdAt"` // ms since 1970
	Codebase  string            `json:"codebase,omitempty"`
	Image     string            `json:"image,omitempty"`

	ExpiresAt   int64          `json:"expiresAt,omitempty"`   // ms since 1970; 0: never
	IdleTimeout int64          `json:"idleTimeout,omitempty"` // ms; 0: none
	Expired     runtime.Expiry `json:"expired,omitempty"`
}

func listingOf(s *runtime.Sandbox) listing {
	l := listing{
		ID: s.ID, Name: s.Name, Runtime: s.Runtime, State: s.State, Reason: s.Reason,
		Labels: s.Labels, CreatedAt: s.CreatedAt.UnixMilli(), Codebase: s.CodebasePath, Image: s.Image,
	}
	l.IdleTimeout, l.Expired = s.IdleTimeout.Milliseconds(), s.Expired
	if !s.ExpiresAt.IsZero() {
		l.ExpiresAt = s.ExpiresAt.UnixMilli()
	}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	return l
}

func (a *app) lsCommand() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the sandboxes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			all, err := rt.List(cmd.Context())
			if err != nil {
				return err
			}
			listings := []listing{}
			for _, s := range all {
				listings = append(listings, listingOf(s))
			}
			switch {
			case asJSON:
				return a.printJSON(listings)
			case quiet:
				for _, l := range listings {
					fmt.Fprintln(a.out, l.ID)
				}
				return nil
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tRUNTIME\tSTATE\tAGE\tEXPIRES\tCODEBASE\tLABELS")
			for _, l := range listings {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, dash(l.Name), l.Runtime, l.State,
					age(time.UnixMilli(l.CreatedAt)), until(l.ExpiresAt), dash(printable(l.Codebase)), dash(printable(joinLabels(l.Labels))))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	return cmd
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func joinLabels(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, ",")
}

// age is how long ago something was, for a person.
func age(since time.Time) string { return span(time.Since(since)) }

// span is a time span that a person can read.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
