package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/local"
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
	CreatedAt int64             `json:"createdAt"` // ms since 1970; 0: unknown, since its configuration is damaged
	Codebase  string            `json:"codebase,omitempty"`
	Filter    runtime.Filter    `json:"filter,omitempty"`
	Cow       bool              `json:"cow,omitempty"` // it works on a copy of its codebase
	Image     string            `json:"image,omitempty"`
	Shape     string            `json:"shape,omitempty"` // of a spare

	ExpiresAt   int64          `json:"expiresAt,omitempty"`   // ms since 1970; 0: never
	IdleTimeout int64          `json:"idleTimeout,omitempty"` // ms; 0: none
	Expired     runtime.Expiry `json:"expired,omitempty"`
}

func listingOf(s *runtime.Sandbox) listing {
	l := listing{
		ID: s.ID, Name: s.Name, Runtime: s.Runtime, State: s.State, Reason: s.Reason,
		Labels: s.Labels, Codebase: s.CodebasePath, Filter: s.Filter, Cow: s.CopyOnWrite, Image: s.Image,
	}
	l.IdleTimeout, l.Expired = s.IdleTimeout.Milliseconds(), s.Expired
	if !s.CreatedAt.IsZero() {
		l.CreatedAt = s.CreatedAt.UnixMilli()
	}
	if !s.ExpiresAt.IsZero() {
		l.ExpiresAt = s.ExpiresAt.UnixMilli()
	}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	return l
}

// stateSpare is the state that ls --all prints of a spare, which is not a sandbox yet.
const stateSpare runtime.State = "spare"

func listingOfSpare(s *local.Spare) listing {
	return listing{
		ID: s.ID, Runtime: s.Runtime, State: stateSpare, Shape: s.Shape, CreatedAt: s.Since.UnixMilli(), Labels: map[string]string{},
		ExpiresAt: time.Now().Add(s.Left).UnixMilli(),
	}
}

func (a *app) lsCommand() *cobra.Command {
	var f format
	var spares bool
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
			if spares {
				all, err := rt.Spares()
				if err != nil {
					return err
				}
				for i := range all {
					listings = append(listings, listingOfSpare(&all[i]))
				}
			}
			t := table[listing]{
				head: "ID\tNAME\tRUNTIME\tSTATE\tAGE\tEXPIRES\tCODEBASE\tFILTER\tLABELS",
				row: func(l listing) []any {
					return []any{
						l.ID, dash(l.Name), dash(l.Runtime), l.State, sinceThen(l.CreatedAt), until(l.ExpiresAt),
						dash(printable(l.Codebase)), filterText(&l), dash(printable(joinLabels(l.Labels))),
					}
				},
				id: func(l listing) string { return l.ID },
			}
			return t.print(a, f, listings)
		},
	}
	f.flagsWithIDs(cmd)
	cmd.Flags().BoolVarP(&spares, "all", "a", false, "also those of pools that no command has taken: see wolffia pool")
	return cmd
}

// filterText says what enforces the rules, and whether the codebase is a copy.
func filterText(l *listing) string {
	if l.Cow {
		return string(l.Filter) + "+cow"
	}
	return dash(string(l.Filter))
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

// sinceThen is the age of what began at ms since 1970, for a person; 0: it is not known.
func sinceThen(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return age(time.UnixMilli(ms))
}

// age is how long ago something was, for a person; 0 if it is in the future, as after the clock was set back.
func age(since time.Time) string { return span(max(0, time.Since(since))) }

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
