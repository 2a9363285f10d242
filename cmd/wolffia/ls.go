package main

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A listing is what --json prints of a sandbox.
type listing struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Runtime string            `json:"runtime"`
	State   runtime.State     `json:"state"`
	Reason  string            `json:"reason,omitempty"`
	Labels  map[string]string `json:"labels"`
	// ms since 1970; 0: unknown, since its configuration is damaged
	CreatedAt int64          `json:"createdAt"`
	Codebase  string         `json:"codebase,omitempty"`
	Filter    runtime.Filter `json:"filter,omitempty"`
	Cow       bool           `json:"cow,omitempty"` // it works on a copy of its codebase
	Image     string         `json:"image,omitempty"`
	Root      bool           `json:"root,omitempty"`  // programs inside are root
	Shape     string         `json:"shape,omitempty"` // of a pooled sandbox
	// Version is that of the wolffia that has started a running sandbox; empty: it is unknown.
	Version string `json:"version,omitempty"`

	ExpiresAt   int64          `json:"expiresAt,omitempty"`   // ms since 1970; 0: never
	IdleTimeout int64          `json:"idleTimeout,omitempty"` // ms; 0: none
	Expired     runtime.Expiry `json:"expired,omitempty"`
}

func listingOf(s *runtime.Sandbox) listing {
	l := listing{
		ID: s.ID, Name: s.Name, Runtime: s.Runtime, State: s.State, Reason: s.Reason,
		Labels: s.Labels, Codebase: s.CodebasePath, Filter: s.Filter, Cow: s.CopyOnWrite, Image: s.Image, Root: s.Root,
	}
	l.IdleTimeout, l.Expired = s.IdleTimeout.Milliseconds(), s.Expired
	if !s.CreatedAt.IsZero() {
		l.CreatedAt = s.CreatedAt.UnixMilli()
	}
	if !s.ExpiresAt.IsZero() {
		l.ExpiresAt = s.ExpiresAt.UnixMilli()
	}
	if s.State == runtime.StateCreated && isSnapshot(s.Labels) {
		l.State = stateSnapshot
	}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	return l
}

// stateSnapshot is the state that ls prints of a service's snapshot.
const stateSnapshot runtime.State = "snapshot"

// isSnapshot reports whether a sandbox is a snapshot of a service, which is never started.
func isSnapshot(labels map[string]string) bool {
	var record struct{ Snapshot *struct{} }
	err := json.Unmarshal([]byte(labels[launch.LabelRecord]), &record)
	return err == nil && record.Snapshot != nil
}

// statePooled is the state that ls --all prints of a pooled sandbox.
const statePooled runtime.State = "pooled"

func listingOfPooled(s local.PooledSandbox) listing {
	return listing{
		ID: s.ID, Runtime: s.Runtime, State: statePooled, Shape: s.Shape, CreatedAt: s.Since.UnixMilli(), Labels: map[string]string{},
		ExpiresAt: time.Now().Add(s.Left).UnixMilli(),
	}
}

// labelsText returns labels for a person: without a service's own records.
func labelsText(labels map[string]string) string {
	shown := maps.Clone(labels)
	maps.DeleteFunc(shown, func(k, _ string) bool {
		return k == launch.LabelRecord || k == launch.LabelSettings || k == launch.LabelKey || strings.HasPrefix(k, launch.LabelContainer)
	})
	return console.JoinLabels(shown)
}

func lsCommand(h *host.Host) *cobra.Command {
	var pooled bool
	cmd := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the sandboxes", Args: cobra.NoArgs}
	cmd.Flags().BoolVarP(&pooled, "all", "a", false,
		"also those of pools that no command has claimed: see wolffia pool")
	return host.List(h, cmd, &console.Table[listing]{
		Kept: 2, Head: "ID\tNAME\tRUNTIME\tSTATE\tAGE\tEXPIRES\tCODEBASE\tFILTER\tLABELS",
		Row: func(l listing) []any {
			return []any{
				l.ID, console.Dash(l.Name), runtimeText(&l), stateText(&l, h.Version), console.SinceThen(l.CreatedAt), console.Until(l.ExpiresAt),
				console.Dash(console.Printable(l.Codebase)), filterText(&l), console.Dash(console.Printable(labelsText(l.Labels))),
			}
		},
		IDs: "ids", ID: func(l listing) string { return l.ID },
	}, func(ctx context.Context, rt *local.Runtime, _ []string) ([]listing, error) {
		all, err := rt.List(ctx)
		listings := host.Mapped(all, func(s *runtime.Sandbox) listing {
			l := listingOf(s)
			if s.State.Runs() {
				l.Version = rt.Version(s.ID)
			}
			return l
		})
		if err == nil && pooled {
			var more []local.PooledSandbox
			more, err = rt.PooledSandboxes()
			listings = append(listings, host.Mapped(more, listingOfPooled)...)
		}
		return listings, err
	})
}

// stateText says what a sandbox does, and which wolffia has started it if that is not ours.
func stateText(l *listing, ours string) string {
	if l.Version == "" || l.Version == ours {
		return string(l.State)
	}
	return string(l.State) + " (" + console.Printable(l.Version) + ")"
}

// runtimeText says what isolates, and whether root is inside.
func runtimeText(l *listing) string {
	if l.Root {
		return l.Runtime + "+root"
	}
	return console.Dash(l.Runtime)
}

// filterText says what enforces the rules, and whether the codebase is a copy.
func filterText(l *listing) string {
	if l.Cow {
		return string(l.Filter) + "+cow"
	}
	return console.Dash(string(l.Filter))
}
